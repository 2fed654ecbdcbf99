/** WAL: the slot, how far it is read, what it retains, gaps and workers. */
import type { ReactNode } from "react";
import { Link, linkOptions } from "@tanstack/react-router";

import { bytes, clock, duration, number, tableName } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { type ProblemRow, useHome, useThroughput } from "../data/runs";
import { useZone } from "../data/zone";
import { useTitle } from "../frame/title";
import { Chart } from "../parts/chart";
import { Copy } from "../parts/copy";
import { Problem } from "../parts/notice";
import { Empty, EmptyBody, Panel, Skeleton } from "../parts/panel";
import { isUrgent, Problems } from "../parts/problems";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { Gaps } from "./wal-gaps";

interface WalRow {
  slot: string;
  plugin: string;
  generation: number;
  epoch: string;
  reader: string | null;
  checkpoint: string;
  updated_at: string;
  abandoned_at: string | null;
  active: boolean | null;
  wal_status: string | null;
  restart_lsn: string | null;
  confirmed: string | null;
  safe_wal_size: string | null;
  current: string | null;
  retained: string | null;
  lag: string | null;
  keep_size: string;
  tables: number;
}

interface ReaderRow {
  slot: string;
  temporary: boolean;
  role: "reader" | "sync" | "tail" | "standby" | "other";
  process: string | null;
  pid: number | null;
  active: boolean;
  wal_status: string | null;
  lag: string | null;
  retained: string | null;
}

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

interface WorkerRow {
  name: string;
  version: string;
  slots: number;
  started_at: string;
  seen_at: string;
  is_working: boolean;
  running: number;
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

function Slot({ row }: { row: WalRow }) {
  return (
    <>
      <Panel
        title={
          <>
            Slot <span className="mono">{row.slot}</span>
          </>
        }
        aside={
          <>
            <span className="chip mono">{row.plugin}</span>
            <span className="chip">generation {row.generation}</span>
          </>
        }
        end={
          <span className="legend">
            <Swatch ink="f-idle" text="kept by the slot" />
            <Swatch ink="f-accent" text="ingested, not confirmed" />
            <Swatch ink="f-retry" text="not ingested" />
          </span>
        }
        flush
      >
        <div className="body">
          <Ruler row={row} />
        </div>
        <div className="grid-3 wal-kv">
          <dl className="kv">
            <dt>Retained</dt>
            <dd>
              {row.retained === null ? "no slot" : bytes(row.retained)}{" "}
              {row.keep_size !== "-1" && (
                <>
                  of {row.keep_size.replace(/(\d)([kMGT]?B)$/, "$1 $2")} <code>max_slot_wal_keep_size</code>
                </>
              )}
            </dd>
            <dt>wal_status</dt>
            <dd className="mono">{row.wal_status ?? "none"}</dd>
            <dt>Safe</dt>
            <dd>
              {row.safe_wal_size === null
                ? "without limit: max_slot_wal_keep_size is -1"
                : `${bytes(row.safe_wal_size)} more before the slot is lost`}
            </dd>
          </dl>
          <dl className="kv">
            <dt>Checkpoint</dt>
            <dd className="mono">{row.checkpoint}</dd>
            <dt>Advanced</dt>
            <dd>
              <Time at={row.updated_at} />
            </dd>
            <dt>Epoch</dt>
            <dd>
              {number(row.epoch)}
              {row.reader && (
                <>
                  , held by <span className="mono">{row.reader}</span>
                </>
              )}
            </dd>
          </dl>
          <dl className="kv">
            <dt>Oldest</dt>
            <dd className="mono">{row.restart_lsn}</dd>
            <dt>Confirmed</dt>
            <dd className="mono">{row.confirmed}</dd>
            <dt>Server</dt>
            <dd className="mono">{row.current}</dd>
            <dt>Tables</dt>
            <dd>
              <Link to="/tables">{row.tables}</Link>
            </dd>
          </dl>
        </div>
      </Panel>
    </>
  );
}

function Swatch({ ink, text }: { ink: string; text: string }) {
  return (
    <span>
      <svg viewBox="0 0 12 10" aria-hidden="true">
        <rect className={ink} width="12" height="10" />
      </svg>
      {text}
    </span>
  );
}

/** An LSN as a number of bytes. */
function position(lsn: string | null): number {
  const [high = "0", low = "0"] = (lsn ?? "0/0").split("/");
  return parseInt(high, 16) * 2 ** 32 + parseInt(low, 16);
}

const [START, END, ROOM] = [10, 1_110, 200];

/** From the oldest byte that the slot retains to the end of the server's WAL, to scale. */
function Ruler({ row }: { row: WalRow }) {
  const from = position(row.restart_lsn);
  const until = Math.max(position(row.current), from + 1);
  const at = (lsn: string | null) =>
    START + Math.min(Math.max((position(lsn) - from) / (until - from), 0), 1) * (END - START);
  const confirmed = at(row.confirmed);
  const checkpoint = Math.max(at(row.checkpoint), confirmed);
  const beside = (x: number, toTheLeft: boolean) =>
    toTheLeft ? ({ x: x - 4, textAnchor: "end" } as const) : ({ x: x + 4, textAnchor: "start" } as const);
  const parts: [string, number, number][] = [
    ["f-idle", START, confirmed],
    ["f-accent", confirmed, checkpoint],
    ["f-retry", checkpoint, END],
  ];
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="Ruler of the WAL">
      <div className="ruler">
        <svg
          className="chart"
          viewBox="0 0 1120 96"
          role="img"
          aria-label={`WAL from ${row.restart_lsn}: confirmed to ${row.confirmed}, ingested to ${row.checkpoint}, written to ${row.current}; ${bytes(row.lag)} not confirmed`}
        >
          <rect className="f-track" x={START} y="26" width={END - START} height="14" rx="2" />
          {parts.map(
            ([ink, left, right]) =>
              right > left && <rect key={ink} className={ink} x={left} y="26" width={right - left} height="14" />,
          )}
          {[START, confirmed, checkpoint, END].map((x, i) => (
            <path
              key={i}
              className="axis"
              d={`M${x} ${i === 0 || i === 3 ? 18 : 26}V${[48, 68, confirmed > ROOM ? 90 : 48, 48][i]}`}
            />
          ))}
          <text x={START} y="12">
            <tspan className="strong">restart_lsn</tspan> {row.restart_lsn}
          </text>
          <text x={END} y="12" textAnchor="end">
            <tspan className="strong">end of WAL</tspan> {row.current}
          </text>
          <text {...beside(confirmed, confirmed > ROOM)} y="66">
            <tspan className="strong">confirmed</tspan> {row.confirmed}
          </text>
          <text {...beside(checkpoint, checkpoint > END - ROOM)} y="88">
            <tspan className="strong">checkpoint</tspan> {row.checkpoint}
          </text>
        </svg>
      </div>
    </div>
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

const ROLES: Record<ReaderRow["role"], string> = {
  reader: "reader",
  sync: "walagent sync",
  tail: "walagent tail",
  standby: "standby",
  other: "other slot",
};

function Readers() {
  const { rows, error, again } = useQueryOnce<ReaderRow>("readers", {}, { every: 5_000 });
  return (
    <Panel title="Readers" id="readers" aside={rows && <span className="muted">{rows.length}</span>} flush>
      {error && !rows ? (
        <Problem error={error} again={again} />
      ) : rows === null ? (
        <Skeleton rows={1} />
      ) : rows.length === 0 ? (
        <EmptyBody title="No process reads the WAL" command="walagent run">
          The process that holds the slot, those of walagent serve sync and standbys are listed here.
        </EmptyBody>
      ) : (
        <Table<ReaderRow>
          label="Readers"
          rows={rows}
          rowKey={(row) => row.slot}
          columns={[
            {
              title: "Process",
              className: "mono",
              cell: (row) => (
                <>
                  {row.active ? (row.process ?? `PID ${row.pid}`) : <span className="muted">none</span>}
                  {row.role !== "reader" && <span className="block muted">{row.slot}</span>}
                </>
              ),
            },
            {
              title: "Role",
              className: "inline",
              cell: (row) => (
                <>
                  {ROLES[row.role]} {row.temporary && <span className="chip">temporary slot</span>}
                </>
              ),
            },
            {
              title: "State",
              className: "inline nowrap",
              cell: (row) =>
                row.wal_status === "lost" ? (
                  <State state="failed" word="lost" />
                ) : (
                  <State state={row.active ? "reading" : "unread"} />
                ),
            },
            { title: "Behind", label: "Behind", className: "num inline nowrap", cell: (row) => bytes(row.lag) },
            {
              title: "Retained",
              label: "Retained",
              className: "num inline nowrap",
              cell: (row) => bytes(row.retained),
            },
          ]}
        />
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

function Workers() {
  const { rows } = useQueryOnce<WorkerRow>("workers", {}, { every: 5_000 });
  return (
    <Panel title="Workers" id="workers" aside={rows && <span className="muted">{rows.length}</span>} flush>
      {rows === null ? (
        <Skeleton rows={1} />
      ) : rows.length === 0 ? (
        <EmptyBody title="No worker" command="walagent run">
          Processes that execute runs register here.
        </EmptyBody>
      ) : (
        <Table<WorkerRow>
          label="Workers"
          rows={rows}
          rowKey={(row) => row.name}
          columns={[
            { title: "Worker", className: "mono", cell: (row) => row.name },
            {
              title: "State",
              className: "inline",
              cell: (row) =>
                row.is_working ? <State state="active" word="working" /> : <State state="paused" word="not seen" />,
            },
            { title: "Version", className: "hide-s", cell: (row) => row.version },
            { title: "Slots", label: "Slots", className: "num inline", cell: (row) => number(row.slots) },
            { title: "Running", label: "Running", className: "num inline", cell: (row) => number(row.running) },
            { title: "Seen", label: "Seen", className: "num inline nowrap", cell: (row) => <Time at={row.seen_at} /> },
          ]}
        />
      )}
    </Panel>
  );
}
