/** What caused a run: the change, where it is in the WAL, and the runs before and after. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { tableName } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { type Change, isOpen, type RunDetail, useChain } from "../data/runs";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Panel, Skeleton } from "../parts/panel";
import { RowDiff, RowTable } from "../parts/rowdiff";
import { Time } from "../parts/time";
import { type RowSeen } from "./runs-list";
import { sqlValue } from "./steps";

export function Chain({ run }: { run: RunDetail }) {
  const { rows } = useChain(run.id);
  if (!rows) return null;
  const first = rows[0];
  return (
    <Panel title="Cause and effect" flush>
      <ol className="tree">
        {first && !first.cause_run && first.op && (
          <li>
            <Link to="/tables/$table" params={{ table: first.relation ?? "" }}>
              <Icon name="table" small />
              <span className="clip">{first.op.toUpperCase()} by the application</span>
              <span className="muted">depth 0</span>
            </Link>
          </li>
        )}
        {rows.map((row) => (
          <li key={row.id} className="sub">
            <Link
              to="/runs/$run"
              params={{ run: row.id }}
              activeProps={{}}
              aria-current={row.id === run.id ? "true" : undefined}
            >
              <Icon name={row.id === run.id ? "runs" : "step"} small className={row.id === run.id ? "" : "muted"} />
              <span className="clip">
                run {row.id}, {row.agent ?? "question"}
                {row.id !== run.id && row.relation && ` on ${tableName(row.relation)}`}
              </span>
              <span className="muted">{row.id === run.id ? "this run" : `depth ${row.depth}`}</span>
            </Link>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

export function ChangePanel({ run, change, title = "Change" }: { run: RunDetail; change: Change; title?: string }) {
  const { new: after, old: before, op } = change;
  const [compares, setCompares] = useState(false);
  return (
    <Panel
      id={title === "Change" ? "s0" : undefined}
      title={title}
      aside={<span className="chip mono">{op.toUpperCase()}</span>}
      end={change.hidden ? undefined : <Copy text={() => changeSql(change)} label="Copy as SQL" />}
      flush
      foot={
        run.relation && run.key ? (
          <button className="btn quiet small" type="button" onClick={() => setCompares(!compares)}>
            {compares ? "Hide the newest row" : "Compare with the newest row"}
          </button>
        ) : undefined
      }
    >
      <ChangeRows change={change} />
      {compares && <RowNow run={run} before={after ?? before ?? {}} />}
    </Panel>
  );
}

/** The rows of a change as its reader may see them, and what is left out of them. */
export function ChangeRows({ change }: { change: Change }) {
  const { new: after, old: before, op } = change;
  return (
    <>
      {!before && !after ? null : op === "update" && before && after ? (
        <RowDiff title="column" before={before} after={after} />
      ) : op === "delete" ? (
        <RowTable row={before ?? {}} kind="delete" label="Deleted row" />
      ) : (
        <RowTable row={after ?? {}} kind="insert" label="Row of the change" />
      )}
      {change.hidden ? (
        <p className="note muted">
          {change.hidden === 1 ? "1 column is" : `${change.hidden} columns are`} hidden: the role approver sees them,
          and a principal whose login can read them in the table.
        </p>
      ) : null}
      {change.unchanged?.length ? (
        <p className="note muted">{change.unchanged.join(", ")}: unchanged large values, which the WAL leaves out.</p>
      ) : null}
      {change.truncated ? (
        <p className="note muted">{Object.keys(change.truncated).join(", ")}: shortened, as the model got it.</p>
      ) : null}
    </>
  );
}

function RowNow({ run, before }: { run: RunDetail; before: Record<string, unknown> }) {
  const { rows, error } = useQueryOnce<RowSeen>("row_now", { run: run.id });
  if (error) return <p className="note muted">{error.message}</p>;
  if (!rows) return <Skeleton rows={1} />;
  const seen = rows[0];
  if (!seen?.row)
    return (
      <p className="note muted">
        {seen?.op === "delete" ? "The row was deleted later." : "No later content of this row is known."}
      </p>
    );
  const now = Object.fromEntries(Object.entries(seen.row).filter(([name]) => name in before));
  if (seen.run_id === run.id) return <p className="note muted">No later change of this row started a run.</p>;
  return <RowDiff title={`as run ${seen.run_id} saw it`} before={before} after={now} changedOnly={false} />;
}

/** The change as a statement that a person can read, and run after a look at it. */
function changeSql(change: Change): string {
  const table = `${change.schema}.${change.table}`;
  const row = change.new ?? change.old ?? {};
  const names = Object.keys(row);
  if (change.op === "delete")
    return `delete from ${table} where ${names.map((name) => `${name} = ${sqlValue(row[name])}`).join(" and ")};`;
  return `insert into ${table} (${names.join(", ")})\nvalues (${names.map((name) => sqlValue(row[name])).join(", ")});`;
}

export function Position({ run }: { run: RunDetail }) {
  const facts: [string, React.ReactNode, boolean?][] = [
    ["Commit LSN", run.commit_lsn, true],
    ["Ordinal", run.ordinal],
    ["Generation", run.generation || null],
    ["xid", run.xid, true],
    ["Ordering key", run.ordering_key, true],
    ["Matched by", run.matched_by],
    ["Runs as", run.run_as, true],
    ["Worker", run.worker, true],
    [
      "Lease",
      isOpen(run.state) ? (
        run.lease_expires_at ? (
          <Time at={run.lease_expires_at} />
        ) : (
          <span className="muted">none while waiting</span>
        )
      ) : null,
    ],
    [
      "Thread",
      run.thread && (
        <Link to="/threads/$thread" params={{ thread: run.thread }}>
          open
        </Link>
      ),
    ],
  ];
  return (
    <Panel title="Position" id="pos">
      <dl className="kv">
        {facts.map(([name, value, isMono]) =>
          value === null || value === undefined || value === "" ? null : (
            <div className="contents" key={name}>
              <dt>{name}</dt>
              <dd className={isMono ? "mono" : undefined}>{value}</dd>
            </div>
          ),
        )}
      </dl>
    </Panel>
  );
}
