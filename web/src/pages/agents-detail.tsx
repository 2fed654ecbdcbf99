/** An attachment in full: what it may do, its versions, and how right they were. */
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import type { AttachmentRow } from "../data/agents";
import { number } from "../data/format";
import { mutate } from "../data/mutate";
import { Confirm } from "../parts/confirm";
import { Icon } from "../parts/icon";
import { Panel } from "../parts/panel";
import { Payload } from "../parts/payload";
import { State } from "../parts/state";
import { toast, toastProblem } from "../parts/toast";
import { Kept } from "./agents-accuracy";
import { Canary } from "./agents-canary";
import { RefusalNotice, Versions } from "./agents-versions";

export function AttachmentState({ row }: { row: AttachmentRow }) {
  if (row.state === "backfill") {
    const total = Number(row.to_backfill ?? 0);
    return (
      <State
        state="backfill"
        word={total ? `backfill ${Math.floor((100 * Number(row.backfilled ?? 0)) / total)} %` : "backfill"}
      />
    );
  }
  if (row.state === "waits") return <State state="pending" word="waits for the reader" />;
  if (row.state === "not attached") return <State state="pending" word="not attached" />;
  return <State state={row.state} long />;
}

export function Detail({ row, again }: { row: AttachmentRow; again: () => void }) {
  const mayChange = row.refusal === null;
  const [isAsking, ask] = useState<"pause" | "detach" | null>(null);
  const navigate = useNavigate();
  const detach = async () => {
    try {
      await mutate("detach", { name: row.attachment });
      toast(
        <>
          Detached <b className="strong">{row.attachment}</b>. {row.relation} starts no runs of it.
        </>,
      );
      await navigate({ to: "/agents" });
    } catch (error) {
      toastProblem(error);
    }
    again();
  };
  const act = async (name: "pause" | "resume") => {
    try {
      await mutate(name, { name: row.attachment });
      toast(
        <>
          {name === "pause" ? "Paused" : "Resumed"} <b className="strong">{row.attachment}</b>.
          {name === "pause" && Number(row.pending) > 0 && ` ${number(row.pending)} pending runs wait.`}
        </>,
        {
          action: {
            label: "Undo",
            key: "u",
            run: () =>
              void mutate(name === "pause" ? "resume" : "pause", { name: row.attachment }).then(again, toastProblem),
          },
        },
      );
      again();
    } catch (error) {
      toastProblem(error);
    }
  };
  const isPaused = row.state === "paused" || row.state === "broken";
  return (
    <Panel
      title={row.attachment ? `${row.attachment} on ${row.relation}` : row.agent}
      aside={<AttachmentState row={row} />}
      end={
        mayChange && (
          <span className="row wrap">
            {row.attachment && (
              <button
                type="button"
                className="btn small"
                onClick={() =>
                  isPaused ? void act("resume") : Number(row.pending) > 0 ? ask("pause") : void act("pause")
                }
              >
                <Icon name={isPaused ? "play" : "pause"} small />
                {isPaused ? "Resume" : "Pause"}
              </button>
            )}
            <Link className="btn small" to="/agents/$agent/edit" params={{ agent: row.agent }}>
              <Icon name="edit" small />
              Edit prompt
            </Link>
            {row.attachment && (
              <button type="button" className="btn small danger" onClick={() => ask("detach")}>
                Detach…
              </button>
            )}
          </span>
        )
      }
    >
      <div className="grid-3">
        <dl className="kv">
          <dt>Model</dt>
          <dd>{[...row.cascade, row.model].join(", else ")}</dd>
          {row.columns && (
            <>
              <dt>Reads columns</dt>
              <dd className="mono">{row.columns.join(", ")}</dd>
            </>
          )}
          <dt>Writes</dt>
          <dd className="mono">{row.writes?.join(", ") || "nothing"}</dd>
          {row.run_as && (
            <>
              <dt>Runs as</dt>
              <dd className="mono">{row.run_as}</dd>
            </>
          )}
          {row.ordering_key && (
            <>
              <dt>Ordering key</dt>
              <dd className="mono">{row.ordering_key.join(", ")}</dd>
            </>
          )}
          <dt>Max depth</dt>
          <dd>{row.max_depth}</dd>
          <dt>Managed by</dt>
          <dd>{row.source === "file" ? "agents.yaml" : "SQL"}</dd>
          {row.paused_by && (
            <>
              <dt>Paused by</dt>
              <dd>{row.paused_by}</dd>
            </>
          )}
          {row.paused_reason && (
            <>
              <dt>{row.paused_by ? "Reason" : "Broken"}</dt>
              <dd>{row.paused_reason}</dd>
            </>
          )}
        </dl>
        <div className="stack tight">
          <h3>Tools</h3>
          <ul className="stack tight">
            {row.tools.map((tool) => (
              <li className="row wrap" key={tool.name}>
                <code>{tool.name}</code>
                {Object.entries(tool.bind ?? {}).map(([name, column]) => (
                  <span className="chip" key={name}>
                    {name} = new.{column}
                  </span>
                ))}
                {tool.approval && (
                  <span className="chip warn">
                    <Icon name="s-approval" small /> approval
                  </span>
                )}
              </li>
            ))}
            {row.tools.length === 0 && <li className="muted">none</li>}
          </ul>
        </div>
        <div className="stack tight">
          <h3>Versions</h3>
          <Versions agent={row.agent} version={row.agent_version} />
          <p>
            <Link to="/evaluations" search={{ agent: row.agent }}>
              Evaluations
            </Link>{" "}
            <span className="muted">of other versions on its changes</span>
          </p>
        </div>
      </div>
      {row.attachment && row.writes?.length ? <Kept agent={row.agent} attachment={row.attachment} /> : null}
      {row.attachment && row.relation !== "agent.event" && (
        <Canary attachment={row.attachment} mayChange={mayChange} again={again} />
      )}
      {row.system_prompt && (
        <div className="pad">
          <Payload title="System prompt" text={row.system_prompt} name={`${row.agent}-prompt.txt`} />
        </div>
      )}
      {row.refusal === "role" || mayChange ? null : (
        <div className="pad">
          <RefusalNotice refusal={row.refusal} agent={row.agent} />
        </div>
      )}
      {isAsking === "detach" && (
        <Confirm
          title={`Detach ${row.attachment}?`}
          action={`Detach ${row.attachment}`}
          keep="Keep it attached"
          danger
          onConfirm={detach}
          onClose={() => ask(null)}
        >
          <p>
            Changes of {row.relation} start no more runs of {row.agent}.{" "}
            {isPaused
              ? "It is paused, so its pending runs are cancelled. "
              : Number(row.pending) > 0
                ? `Its ${number(row.pending)} pending runs are still executed. `
                : ""}
            An agent of the same name that nothing else uses goes with it.
          </p>
        </Confirm>
      )}
      {isAsking === "pause" && (
        <Confirm
          title={`Pause ${row.attachment}?`}
          action={`Pause ${row.attachment}`}
          keep="Keep it active"
          onConfirm={() => act("pause")}
          onClose={() => ask(null)}
        >
          <p>{number(row.pending)} pending runs wait until it is resumed. New changes are still recorded as runs.</p>
        </Confirm>
      )}
    </Panel>
  );
}
