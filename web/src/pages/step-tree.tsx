/** The steps of a run as a tree, each with a bar of when it ran and for how long. */
import { Link } from "@tanstack/react-router";

import { duration, relative } from "../data/format";
import type { RunDetail } from "../data/runs";
import { useZone } from "../data/zone";
import { Icon, type IconName } from "../parts/icon";
import { useTick } from "../parts/time";
import { callText, type Item } from "./steps";

type Ink = "idle" | "running" | "ok" | "person" | "failed" | "retry";

export interface Bar {
  ink: Ink;
  from: number;
  to: number;
}

interface Line {
  id: string;
  icon: IconName;
  text: string;
  took: string;
  sub?: boolean;
  muted?: boolean;
  bar?: Bar | undefined;
  current?: boolean;
}

const INKS: Record<string, Ink> = {
  committed: "ok",
  failed: "failed",
  rejected: "failed",
  approval: "person",
  review: "person",
  running: "running",
  planned: "idle",
  unused: "idle",
};

export function StepTree({
  run,
  items,
  isLinked = false,
  bars = true,
  open,
}: {
  run: RunDetail;
  items: readonly Item[];
  /** Whether a step leads to its place on the page of the run. */
  isLinked?: boolean;
  bars?: boolean;
  open?: string | undefined;
}) {
  useTick();
  const zone = useZone();
  const lines = treeLines(run, items, zone, bars);
  return (
    <ol className={`tree${bars ? "" : " panel"}`}>
      {lines.map((line) => {
        const content = (
          <>
            <Icon name={line.icon} small className={line.muted ? "muted" : ""} />
            <span className={`clip${line.muted ? " muted" : ""}`}>{line.text}</span>
            <span className="muted">{line.took}</span>
            {bars && line.bar && (
              <svg className="fall" viewBox="0 0 100 5" preserveAspectRatio="none" aria-hidden="true">
                <rect className="f-track" width="100" height="5" />
                <rect
                  className={`f-${line.bar.ink}`}
                  x={line.bar.from}
                  width={Math.max(line.bar.to - line.bar.from, 1.5)}
                  height="5"
                />
              </svg>
            )}
          </>
        );
        return (
          <li key={line.id} className={line.sub ? "sub" : undefined}>
            {isLinked ? (
              <Link to="/runs/$run" params={{ run: run.id }} hash={line.id}>
                {content}
              </Link>
            ) : (
              <a
                href={`#${line.id}`}
                aria-current={line.current || open === line.id ? "step" : undefined}
                onClick={(event) => {
                  event.preventDefault();
                  document.getElementById(line.id)?.scrollIntoView({ block: "start" });
                  history.replaceState(history.state, "", `#${line.id}`);
                }}
              >
                {content}
              </a>
            )}
          </li>
        );
      })}
    </ol>
  );
}

function treeLines(run: RunDetail, items: readonly Item[], zone: string, full: boolean): Line[] {
  const scale = timeScale(run, items);
  const start = Date.parse(run.committed_at ?? run.created_at);
  const began = run.started_at ? Date.parse(run.started_at) : null;
  const lines: Line[] = [
    {
      id: "s0",
      icon: "change",
      text: run.op ? `${run.op.toUpperCase()} matched${full && run.agent ? ` ${run.agent}` : ""}` : run.kind,
      took: began === null ? "" : duration(began - start),
      bar: began === null ? undefined : { ink: "idle", from: 0, to: scale(began) },
    },
  ];
  for (const item of items) {
    const id = `s${item.no}`;
    if (item.type === "reply") {
      const end = Date.parse(item.step.recorded_at);
      const text = full
        ? item.model
        : `${item.model} ${item.calls ? `called ${item.calls} ${item.calls === 1 ? "tool" : "tools"}` : "replied"}`;
      lines.push({
        id,
        icon: "agent",
        text,
        took: duration(item.step.duration_ms ?? 0),
        bar: { ink: "running", from: scale(end - (item.step.duration_ms ?? 0)), to: scale(end) },
      });
    } else if (item.type === "call") {
      const waits = item.state === "approval";
      const asked = item.approval?.recorded_at;
      const ended = item.result?.recorded_at;
      lines.push({
        id,
        sub: true,
        icon: waits ? "s-approval" : item.state === "review" ? "s-review" : "tool",
        text: full
          ? item.tool
          : item.state === "approval"
            ? `${item.tool} waits`
            : callText(item.tool, item.arguments, 60),
        took: waits
          ? full
            ? "waits"
            : asked
              ? relative(asked, zone, true)
              : "waits"
          : item.result
            ? duration(item.result.duration_ms ?? 0)
            : item.state,
        muted: item.state === "planned" || item.state === "unused",
        bar: ended
          ? {
              ink: INKS[item.state] ?? "idle",
              from: scale(Date.parse(ended) - (item.result?.duration_ms ?? 0)),
              to: scale(Date.parse(ended)),
            }
          : waits && asked
            ? { ink: "person", from: scale(Date.parse(asked)), to: 100 }
            : undefined,
        current: waits,
      });
    } else
      lines.push({
        id,
        icon: item.step.kind === "error" ? "s-failed" : "edit",
        text: item.text || item.step.kind,
        took: "",
      });
  }
  if (full && ["pending", "running", "waiting_approval", "waiting_retry"].includes(run.state))
    lines.push({
      id: "next",
      icon: run.state === "running" ? "s-running" : "s-pending",
      muted: true,
      text: next(run),
      took: "",
    });
  return lines;
}

function next(run: RunDetail): string {
  if (run.state === "pending")
    return run.blocked_by ? `next: after run ${run.blocked_by}` : "next: a worker claims the run";
  if (run.state === "waiting_retry") return "next: another attempt";
  return run.state === "running" ? "the model is asked" : "next: the model reads the results";
}

/** Map a time to 0 … 100.  A wait for a person takes at most a third of the width. */
function timeScale(run: RunDetail, items: readonly Item[]): (at: number) => number {
  const start = Date.parse(run.committed_at ?? run.created_at);
  const wait = items.find((item) => item.type === "call" && item.state === "approval");
  const asked = wait?.type === "call" && wait.approval ? Date.parse(wait.approval.recorded_at) : null;
  const last = Math.max(
    start + 1,
    ...items.map((item) =>
      Date.parse((item.type === "call" ? item.result?.recorded_at : item.step.recorded_at) ?? run.created_at),
    ),
    asked ?? 0,
  );
  const width = asked ? 67 : 100;
  return (at) => Math.min(Math.max(((at - start) / (last - start)) * width, 0), 100);
}
