/** WAL: the slot, how far it is read, what it retains, gaps and workers. */
import type { ReactNode } from "react";
import { Link, linkOptions } from "@tanstack/react-router";

import { bytes, clock, duration, tableName } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { type ProblemRow, useHome, useThroughput } from "../data/home";
import { useZone } from "../data/zone";
import { useTitle } from "../frame/title";
import { Chart } from "../parts/chart";
import { Copy } from "../parts/copy";
import { Problem } from "../parts/notice";
import { Empty, EmptyBody, Panel, Skeleton } from "../parts/panel";
import { isUrgent, Problems } from "../parts/problems";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Gaps } from "./wal-gaps";
import { type WalRow, Slot } from "./wal-slot";
import { Readers, Workers } from "./wal-readers";

interface PublishedRow {
  relation: string;
  inserts: boolean;
  updates: boolean;
  deletes: boolean;
  truncates: boolean;
  is_filtered: boolean;
  is_own: boolean;
  agents: string[];
}

const OF_WAL: ReadonlySet<ProblemRow["kind"]> = new Set(["reader", "slot", "gap", "foreign", "worker"]);

export default function Wal(): ReactNode {
  useTitle("WAL");
  const { rows, error, again } = useQueryOnce<WalRow>("wal", {}, { every: 3_000 });
  const asked = useHome();
  const home = asked.rows?.[0];
  const slots = rows?.filter((row) => row.abandoned_at === null) ?? [];
  const first = slots[0];
  const problems = (home?.problems ?? []).filter((row) => OF_WAL.has(row.kind));
  const urgent = problems.some(isUrgent);
  const isLate = error !== null || asked.error !== null;
  return (
    <>
      <div className="head">
        <h1>WAL</h1>
        {first && home && (
          <State
            state={isLate || !first.active ? "unready" : urgent ? "broken" : "healthy"}
            word={isLate ? "no answer" : !first.active ? "no reader" : urgent ? "to act on" : "checkpoint advances"}
          />
        )}
        {first?.reader && first.active && (
          <p>
            The reader <code>{first.reader}</code> is{" "}
            {home?.lag_seconds != null && `${duration(home.lag_seconds * 1_000)} and `}
            {bytes(first.lag)} behind the server.
          </p>
        )}
        <div className="actions">
          <Copy text="walagent wal tail" label="Watch changes: walagent wal tail" className="btn quiet" />
        </div>
      </div>
      {error && !rows ? (
        <Panel title="Slot" flush>
          <Problem error={error} again={again} />
        </Panel>
      ) : rows === null ? (
        <Panel label="Slot" flush busy>
          <Skeleton rows={5} />
        </Panel>
      ) : (
        <div className="stack">
          <Problems rows={problems} />
          {slots.length === 0 && (
            <Empty title="No slot" command="walagent run">
              The replication slot, its lag and its retained WAL are shown here as soon as a reader has started.
            </Empty>
          )}
          {slots.map((row) => (
            <Slot key={row.slot} row={row} />
          ))}
          {slots.length > 0 && (
            <>
              <div className="grid-eq">
                <Lag />
                <Readers />
              </div>
              <Publication />
            </>
          )}
          <Gaps />
          <Workers />
        </div>
      )}
    </>
  );
}

/** From commit to ingestion: what the runs of the last hour waited. */
function Lag() {
  const { rows, error, again } = useThroughput();
  const zone = useZone();
  const lags = (rows ?? []).flatMap((row) => row.lag_ms ?? []);
  const most = Math.max(0, ...lags);
  return (
    <Panel
      title="Reader lag"
      aside={<span className="muted">last hour, from commit to ingestion</span>}
      end={lags.length > 0 && <span className="muted">at most {duration(most)}</span>}
      flush
    >
      {error && !rows ? (
        <Problem error={error} again={again} />
      ) : rows === null ? (
        <Skeleton rows={3} />
      ) : lags.length === 0 ? (
        <EmptyBody title="No run in the last hour">
          The longest time from the commit of a change to its ingestion is drawn here for each minute.
        </EmptyBody>
      ) : (
        <div className="body">
          <Chart
            kind="lines"
            unit="ms"
            label={`From commit to ingestion, the longest of each minute of the last hour; at most ${duration(most)}`}
            labels={rows.map((row) => clock(row.minute, zone))}
            series={[{ name: "lag", ink: "accent", values: rows.map((row) => row.lag_ms) }]}
            link={(i) => linkOptions({ to: "/runs", search: { since: rows[i]?.minute, until: rows[i + 1]?.minute } })}
          />
        </div>
      )}
    </Panel>
  );
}

/** Tables whose changes the reader receives. */
function Publication() {
  const { rows, error, again } = useQueryOnce<PublishedRow>("publication", {}, { every: 15_000 });
  const tables = (rows ?? []).filter((row) => !row.is_own || row.agents.length > 0);
  const own = (rows ?? []).filter((row) => row.is_own).map((row) => row.relation.replace(/^agent\./, ""));
  return (
    <Panel
      title="Publication"
      id="publication"
      aside={
        rows && (
          <span className="muted">
            {tables.length === 1 ? "1 table with agents" : `${tables.length} tables with agents`}
          </span>
        )
      }
      foot={own.length > 0 ? `Also of walagent, for this page and walagent serve sync: ${own.join(", ")}.` : undefined}
      flush
    >
      {error && !rows ? (
        <Problem error={error} again={again} />
      ) : rows === null ? (
        <Skeleton rows={1} />
      ) : tables.length === 0 ? (
        <EmptyBody title="No table has an agent" command="walagent agents attach TABLE 'agent=NAME'">
          PostgreSQL sends only the changes of tables in the publication. Attaching an agent adds its table.
        </EmptyBody>
      ) : (
        <Table<PublishedRow>
          label="Publication"
          rows={tables}
          rowKey={(row) => row.relation}
          columns={[
            {
              title: "Table",
              className: "mono",
              cell: (row) =>
                row.is_own ? (
                  row.relation
                ) : (
                  <Link className="plain" to="/tables/$table" params={{ table: row.relation }}>
                    {tableName(row.relation)}
                  </Link>
                ),
            },
            { title: "Changes", className: "inline", cell: (row) => <Changes row={row} /> },
            { title: "Rows", className: "inline", cell: (row) => (row.is_filtered ? "those of a condition" : "all") },
            { title: "Agents", cell: (row) => row.agents.join(", ") },
          ]}
        />
      )}
    </Panel>
  );
}

function Changes({ row }: { row: PublishedRow }) {
  const sent = [
    row.inserts && "INSERT",
    row.updates && "UPDATE",
    row.deletes && "DELETE",
    row.truncates && "TRUNCATE",
  ].filter((each) => each !== false);
  return (
    <span className="row wrap">
      {sent.map((each) => (
        <span key={each} className="chip mono">
          {each}
        </span>
      ))}
    </span>
  );
}
