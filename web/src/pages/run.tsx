/** One run: its steps as a tree and in full, the change that caused it, and what it caused. */
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { type ReactNode, useEffect, useMemo, useState } from "react";

import { badge, useRun, useSteps } from "../data/runs";
import { useKeys } from "../frame/keyboard";
import { useTitle } from "../frame/title";
import { Copy } from "../parts/copy";
import { Of } from "../parts/of";
import { Panel, Skeleton } from "../parts/panel";
import { State } from "../parts/state";
import { Absent } from "./missing";
import { RunActions } from "./run-actions";
import { Reverted, RunChanges, RunReverts } from "./run-changes";
import { RunForks } from "./run-fork";
import { RunScores } from "./run-score";
import { lastList } from "./runs-list";
import { StepTree } from "./step-tree";
import { items } from "./steps";
import { StepView } from "./run-steps";
import { Chain, ChangePanel, Position } from "./run-cause";
import { NOTHING, Facts, Ended, Asking } from "./run-facts";

export default function RunPage(): ReactNode {
  const { run: id } = useParams({ from: "/signed-in/runs/$run" });
  useTitle(`Run ${id}`);
  const { rows, isLoading } = useRun(id);
  const steps = useSteps(id);
  const run = rows[0];
  const shown = useMemo(() => items(steps.rows, run), [steps.rows, run]);
  const navigate = useNavigate();
  const at = lastList.ids.indexOf(id);
  const [allOpen, setAllOpen] = useState(0);
  const go = (by: number) => {
    const next = at < 0 ? undefined : lastList.ids[at + by];
    if (next) void navigate({ to: "/runs/$run", params: { run: next } });
  };
  useKeys({ "[": () => go(-1), "]": () => go(1), e: () => setAllOpen((n) => n + 1) });
  useOpenHash(shown.length > 0);
  if (isLoading) return <Skeleton rows={8} label={`Run ${id} is loading`} />;
  if (!run) return <Absent text={`Run ${id} does not exist, or you may not see it.`} to="/runs" action="Open runs" />;
  return (
    <>
      <div className="head">
        <p className="crumb">
          <Link to="/runs" search={lastList.search}>
            Runs
          </Link>
          {lastList.label && ` / ${lastList.label}`}{" "}
          {at >= 0 && (
            <span className="muted">
              (<kbd>[</kbd> previous, <kbd>]</kbd> next)
            </span>
          )}
        </p>
        <h1>Run {id}</h1>
        <State state={badge(run.state)} long />
        <p>
          <Of run={run} quoted />
        </p>
        <div className="actions">
          <Copy text={() => location.href} label="Copy link" className="btn quiet" icon="link" />
          <RunActions run={run} keys />
        </div>
      </div>
      <div className="stack">
        <Facts run={run} />
        <Ended run={run} />
        <RunReverts run={run} />
        <RunForks run={run} />
        <div className="runcols">
          <div className="stack">
            <Panel
              title="Steps"
              flush
              end={
                <button className="btn quiet small" type="button" onClick={() => setAllOpen((n) => n + 1)}>
                  {allOpen % 2 ? "Collapse all" : "Expand all"}
                </button>
              }
              foot={run.state === "waiting_approval" ? "The wait is not to scale." : undefined}
            >
              <StepTree run={run} items={shown} />
            </Panel>
            {run.kind !== "revert" && <Chain run={run} />}
          </div>
          <div className="stack">
            {shown.map((item) => (
              <StepView key={`${item.no}-${allOpen}`} item={item} run={run} items={shown} isOpen={allOpen % 2 === 1} />
            ))}
            <Asking run={run} />
            <Reverted steps={steps.rows} />
            <RunChanges run={run} />
            {shown.length === 0 && run.state !== "running" && run.kind !== "revert" && (
              <Panel label="No steps" className="empty">
                <p className="soft">{NOTHING[run.state] ?? "No step is recorded yet."}</p>
              </Panel>
            )}
          </div>
          <div className="stack">
            {run.change && run.kind !== "revert" && <ChangePanel run={run} change={run.change} />}
            {run.merged?.map((change, i) => (
              <ChangePanel key={i} run={run} change={change} title={`Change ${i + 2}, merged`} />
            ))}
            <RunScores run={run} />
            <Position run={run} />
          </div>
        </div>
      </div>
    </>
  );
}

/** Scroll to the step that the address names, once it is there. */
function useOpenHash(isReady: boolean): void {
  useEffect(() => {
    if (isReady && location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView({ block: "start" });
  }, [isReady]);
}
