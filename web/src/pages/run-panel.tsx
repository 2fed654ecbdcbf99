/** The panel beside the list of runs: one run in short. */
import { Link } from "@tanstack/react-router";

import { duration, money, number } from "../data/format";
import { badge, useRun, useSteps } from "../data/runs";
import { useApprovals } from "../data/approvals";
import { Icon } from "../parts/icon";
import { Notice } from "../parts/notice";
import { Of, pathOf } from "../parts/of";
import { Skeleton } from "../parts/panel";
import { RowTable } from "../parts/rowdiff";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { RunActions } from "./run-actions";
import { StepTree } from "./step-tree";
import { callText, items } from "./steps";

export function RunPanel({ run: id, onClose }: { run: string; onClose: () => void }) {
  const { rows, isLoading } = useRun(id);
  const steps = useSteps(id);
  const approvals = useApprovals();
  const run = rows[0];
  const approval = approvals.rows.find((each) => each.run_id === id);
  const path = run && pathOf(run);
  const row = run?.change?.new ?? run?.change?.old;
  return (
    <aside className="hide-s" aria-label={`Run ${id}`} aria-busy={isLoading || undefined}>
      <div className="row">
        <h2>Run {id}</h2>
        {run && <State state={badge(run.state)} long />}
        <span className="end row">
          <Link className="btn quiet icon" to="/runs/$run" params={{ run: id }} aria-label="Open as page">
            <Icon name="right" />
          </Link>
          <button className="btn quiet icon" type="button" aria-label="Close panel" onClick={onClose}>
            <Icon name="x" />
          </button>
        </span>
      </div>
      {isLoading ? (
        <Skeleton />
      ) : !run ? (
        <p className="soft">Run {id} does not exist, or you may not see it.</p>
      ) : (
        <>
          {run.state === "waiting_approval" && approval && (
            <Notice
              tone="person"
              action={
                <Link className="btn small" to="/approvals" search={{ approval: approval.id }}>
                  Review
                </Link>
              }
            >
              <p className="strong">Waits for a person to approve a call.</p>
              <p>
                <code>{callText(approval.tool, approval.arguments, 160)}</code>
              </p>
            </Notice>
          )}
          {run.state === "needs_review" && (
            <Notice tone="person" icon="s-review">
              <p className="strong">The outcome of a call is unknown.</p>
              <p>{run.what}</p>
            </Notice>
          )}
          {(run.state === "failed" || run.state === "dead") && (
            <Notice tone="failed" icon="s-failed">
              <p className="strong">
                {run.error?.sqlstate && <code>{run.error.sqlstate}</code>} {run.error?.reason ?? run.what}
              </p>
            </Notice>
          )}
          <dl className="kv">
            {run.agent && (
              <>
                <dt>Agent</dt>
                <dd>
                  <Link to="/agents/$agent" params={{ agent: run.agent }}>
                    {run.agent}
                  </Link>{" "}
                  {run.version !== null && `version ${run.version}`}
                </dd>
              </>
            )}
            {path && (
              <>
                <dt>{run.thread ? "Thread" : "Row"}</dt>
                <dd>
                  <Link {...path}>
                    <Of run={run.thread ? run : { ...run, title: null }} />
                  </Link>
                </dd>
              </>
            )}
            {run.op && (
              <>
                <dt>Change</dt>
                <dd>
                  {run.op.toUpperCase()}{" "}
                  {run.commit_lsn && (
                    <>
                      at <span className="lsn">{run.commit_lsn}</span>
                    </>
                  )}
                </dd>
              </>
            )}
            <dt>Committed</dt>
            <dd>
              <Time at={run.committed_at ?? run.created_at} />
            </dd>
            <dt>Attempt</dt>
            <dd>
              {Math.max(run.attempt, 1)} of {run.max_attempts}
            </dd>
            <dt>Spent</dt>
            <dd>
              {number(run.tokens)} tokens{run.cost !== null && `, ${money(run.cost)}`}
            </dd>
            {run.working_ms !== null && (
              <>
                <dt>Working time</dt>
                <dd>{duration(run.working_ms)}</dd>
              </>
            )}
          </dl>
          {row && (
            <div className="stack tight">
              <h3>Row at the change</h3>
              <div className="panel">
                <RowTable row={row} label="Row at the change" />
              </div>
            </div>
          )}
          <div className="stack tight">
            <h3>Steps</h3>
            <StepTree run={run} items={items(steps.rows, run)} isLinked bars={false} />
          </div>
          <div className="row">
            <Link className="btn" to="/runs/$run" params={{ run: id }}>
              Open run
            </Link>
            <RunActions run={run} quiet />
          </div>
        </>
      )}
    </aside>
  );
}
