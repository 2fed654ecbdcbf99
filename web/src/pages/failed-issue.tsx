/** One issue: its reason in full, its newest runs, what was decided about it. */
import { Link } from "@tanstack/react-router";

import { actOnMany } from "../data/bulk";
import { minute, number } from "../data/format";
import { mutate } from "../data/mutate";
import { useQueryOnce } from "../data/queries";
import { filterParams, type RunRow } from "../data/runs";
import { type FailureRow } from "../data/home";
import { useSession } from "../data/session";
import { visible } from "../data/visible";
import { useZone } from "../data/zone";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Problem } from "../parts/notice";
import { Of } from "../parts/of";
import { Skeleton } from "../parts/panel";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";
import { groupFilter, RetryGroup, useMayOperate } from "./failed-group";

export function Issue({ row, again }: { row: FailureRow; again: () => void }) {
  const filter = groupFilter(row);
  const runs = useQueryOnce<RunRow>("runs", { ...filterParams(filter), before: "", limit: 10 });
  const mayOperate = useMayOperate();
  const versions = Object.entries(row.versions ?? {})
    .map(([version, n]) => `v${version}: ${n}`)
    .join(", ");
  const newest = runs.rows?.[0];
  return (
    <div className="gbody">
      <dl className="kv">
        <dt>Reason</dt>
        <dd>
          <span className="said" dir="auto">
            {visible(row.reason)}
          </span>{" "}
          <Copy text={row.reason} />
        </dd>
        {row.example && row.example !== row.reason && (
          <>
            <dt>For example</dt>
            <dd>
              <span className="said" dir="auto">
                {visible(row.example)}
              </span>{" "}
              <Copy text={row.example} />
            </dd>
          </>
        )}
        {row.message && (
          <>
            <dt>Message</dt>
            <dd>
              <code>{row.message}</code> <Copy text={row.message} />
            </dd>
          </>
        )}
        {row.tool && (
          <>
            <dt>Where</dt>
            <dd>
              tool <code>{row.tool}</code>
            </dd>
          </>
        )}
        {versions && (
          <>
            <dt>Versions</dt>
            <dd>
              {row.agent} {versions}
            </dd>
          </>
        )}
        <dt>First, last</dt>
        <dd>
          <Time at={row.first_at} /> in this period, <Time at={row.last_at} />
        </dd>
        {row.decided_at && (
          <>
            <dt>Decided</dt>
            <dd>
              <Decided row={row} />
            </dd>
          </>
        )}
        {Number(row.waiting) > 0 && (
          <>
            <dt>Retrying</dt>
            <dd>{number(row.waiting)} more wait for another attempt</dd>
          </>
        )}
      </dl>
      {runs.error ? (
        <Problem error={runs.error} again={runs.again} />
      ) : runs.rows === null ? (
        <Skeleton rows={2} />
      ) : (
        <Table<RunRow>
          label="Newest runs"
          rows={runs.rows}
          rowKey={(run) => run.id}
          columns={[
            {
              title: "Run",
              label: "Run",
              className: "num inline",
              cell: (run) => (
                <Link to="/runs/$run" params={{ run: run.id }}>
                  {run.id}
                </Link>
              ),
            },
            {
              title: "Row",
              className: "c0",
              cell: (run) => (
                <span className="clip">
                  <Of run={run} />
                </span>
              ),
            },
            {
              title: "Attempt",
              label: "Attempt",
              className: "num hide-s",
              cell: (run) => `${run.attempt} of ${run.max_attempts}`,
            },
            {
              title: "When",
              label: "When",
              className: "num inline nowrap",
              cell: (run) => <Time at={run.finished_at ?? run.created_at} />,
            },
          ]}
        />
      )}
      {mayOperate && <Decide row={row} again={again} />}
      <div className="row wrap">
        {mayOperate && newest && (
          <button
            type="button"
            className="btn small"
            onClick={async () => {
              await actOnMany("retry", [newest.id], 1);
              again();
              runs.again();
            }}
          >
            <Icon name="retry" small />
            Retry run {newest.id}
          </button>
        )}
        <RetryGroup row={row} again={again} long />
        <Link className="end" to="/runs" search={filter}>
          Open the {number(row.runs)} {Number(row.runs) === 1 ? "run" : "runs"}
        </Link>
      </div>
    </div>
  );
}

const IN = { present: "in the version of then", next: "in the version after it" } as const;

/** What somebody decided, and whether it still holds. */
function Decided({ row }: { row: FailureRow }) {
  const zone = useZone();
  const by = row.changed_by && <> by {row.changed_by}</>;
  if (row.issue === "muted")
    return (
      <>
        muted until {minute(row.muted_until ?? "", zone)}
        {by}
      </>
    );
  if (row.issue === "resolved" || row.issue === "regressed")
    return (
      <>
        resolved {row.resolved_in ? IN[row.resolved_in] : "outside walagent"}
        {by} <Time at={row.decided_at} />
        {row.issue === "regressed" && "; it came back since"}
      </>
    );
  return (
    <>
      {row.assignee ? "assigned" : "opened again"}
      {by} <Time at={row.decided_at} />
    </>
  );
}

const MUTES = { "1": "1 hour", "24": "1 day", "168": "7 days" } as const;

/** Resolve, mute, open again, assign. */
function Decide({ row, again }: { row: FailureRow; again: () => void }) {
  const me = useSession()?.principal;
  const of = { agent: row.agent, reason: row.reason, sqlstate: row.sqlstate ?? "" };
  const send = async (name: string, args: object, said: string) => {
    try {
      await mutate(name, { ...of, ...args });
      toast(said);
    } catch (error) {
      toastProblem(error);
    }
    again();
  };
  const decide = (state: string, said: string, more: { resolved_in?: string; hours?: string } = {}) =>
    void send("decide_issue", { state, resolved_in: "", hours: "", ...more }, said);
  const isOpen = row.issue !== "resolved" && row.issue !== "muted";
  const version = row.fixable_in;
  return (
    <div className="row wrap" role="group" aria-label="Issue">
      {isOpen ? (
        <>
          {version && (
            <button
              type="button"
              className="btn small"
              onClick={() => decide("resolved", `Resolved in the ${version} version.`, { resolved_in: version })}
            >
              Resolved in the {version} version
            </button>
          )}
          <button type="button" className="btn small" onClick={() => decide("resolved", "Resolved outside walagent.")}>
            Resolved outside walagent
          </button>
          {Object.entries(MUTES).map(([hours, name]) => (
            <button
              key={hours}
              type="button"
              className="btn small quiet"
              onClick={() => decide("muted", `Muted for ${name}.`, { hours })}
            >
              Mute for {name}
            </button>
          ))}
        </>
      ) : (
        <button type="button" className="btn small" onClick={() => decide("open", "Open again.")}>
          Open again
        </button>
      )}
      {row.assignee === me ? (
        <button
          type="button"
          className="btn small quiet"
          onClick={() => void send("assign_issue", { assignee: "" }, "Assigned to nobody.")}
        >
          Leave it
        </button>
      ) : (
        <button
          type="button"
          className="btn small quiet"
          onClick={() => void send("assign_issue", { assignee: me }, "Assigned to you.")}
        >
          Assign to me
        </button>
      )}
      {row.assignee && row.assignee !== me && <span className="muted">{row.assignee} works on it</span>}
    </div>
  );
}
