/** The facts of a run, how it ended, and who it waits for. */
import { Link } from "@tanstack/react-router";

import { duration, money, number } from "../data/format";
import { useReplies } from "../data/replies";
import { type RunDetail, type RunState } from "../data/runs";
import { Icon } from "../parts/icon";
import { Notice } from "../parts/notice";
import { Prose } from "../parts/prose";
import { State } from "../parts/state";
import { Time } from "../parts/time";

export const NOTHING: Partial<Record<RunState, string>> = {
  pending: "No worker has claimed it yet.",
  skipped: "It was skipped: no step was executed.",
  cancelled: "It was cancelled before its first step.",
  dead: "It ended before its first step.",
};

export function Facts({ run }: { run: RunDetail }) {
  const start = Date.parse(run.committed_at ?? run.created_at);
  const facts: [string, React.ReactNode][] = [];
  if (run.agent)
    facts.push([
      "Agent",
      <>
        <Link to="/agents/$agent" params={{ agent: run.agent }}>
          {run.agent}
        </Link>{" "}
        {run.version !== null && `v${run.version}`}
      </>,
    ]);
  if (run.model) facts.push(["Model", run.model]);
  facts.push([run.committed_at ? "Committed" : "Created", <Time at={run.committed_at ?? run.created_at} />]);
  if (run.commit_lsn)
    facts.push([
      "Commit LSN",
      <>
        <span className="lsn">{run.commit_lsn}</span> <span className="muted">change {run.ordinal}</span>
      </>,
    ]);
  if (run.started_at) facts.push(["Commit to first step", duration(Date.parse(run.started_at) - start)]);
  if (run.working_ms !== null) facts.push(["Working time", duration(run.working_ms)]);
  if (run.finished_at) facts.push(["Commit to end", duration(Date.parse(run.finished_at) - start)]);
  facts.push(["Tokens", `${number(run.input_tokens)} in, ${number(run.output_tokens)} out`]);
  facts.push(["Cost", Number(run.tokens) || run.cost !== null ? money(run.cost) : "none yet"]);
  facts.push(["Attempt", `${Math.max(run.attempt, 1)} of ${run.max_attempts}`]);
  return (
    <section className="panel" aria-label="Facts">
      <dl className="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** Why it failed or waits, above everything else. */
export function Ended({ run }: { run: RunDetail }) {
  if (run.state === "failed" || run.state === "dead")
    return (
      <Notice tone="failed" icon="s-failed">
        <p className="strong">
          {run.error?.sqlstate && <code>{run.error.sqlstate}</code>}{" "}
          {run.error?.reason ?? run.what ?? "No reason was recorded."}
        </p>
        <p>
          {run.state === "dead"
            ? "Its attempts are used up."
            : "It was not retried: another attempt would fail in the same way."}
        </p>
      </Notice>
    );
  if (run.state === "needs_review")
    return (
      <Notice tone="person" icon="s-review">
        <p className="strong">The outcome of a call is unknown: {run.error?.reason ?? run.what}</p>
        <p>Its worker stopped before the answer. Find out whether it happened, then resolve the run.</p>
      </Notice>
    );
  if (run.state === "waiting_retry")
    return (
      <Notice tone="retry" icon="s-retry">
        <p className="strong">{run.error?.reason ?? run.what}</p>
        <p>
          {run.next_attempt_at && (
            <>
              The next attempt starts <Time at={run.next_attempt_at} />.
            </>
          )}
        </p>
      </Notice>
    );
  if (run.blocked_by && run.state === "pending")
    return (
      <Notice tone="info">
        <p>
          It waits for{" "}
          <Link to="/runs/$run" params={{ run: run.blocked_by }}>
            run {run.blocked_by}
          </Link>
          , which has the same ordering key <code>{run.ordering_key}</code>.
        </p>
      </Notice>
    );
  return null;
}

/** What the model writes now; the recorded reply takes its place. */
export function Asking({ run }: { run: RunDetail }) {
  const writing = useReplies(run.state === "running" ? { run: run.id } : undefined);
  if (run.state !== "running") return null;
  return (
    <>
      {writing.map((each) => (
        <section className="panel step" key={each.reply} aria-busy="true">
          <header>
            <Icon name="agent" />
            <h2>Model is writing</h2>
            <span className="muted">{run.model}</span>
          </header>
          <div className="body">
            <div className="said" dir="auto">
              <Prose text={each.text} />
            </div>
          </div>
        </section>
      ))}
      <p className="row soft" role="status">
        <State state="running" bare word={`attempt ${run.attempt}: the model or a tool is working`} />
      </p>
    </>
  );
}
