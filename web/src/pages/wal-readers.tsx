/** Processes that read the WAL, and those that work on runs. */
import { bytes, number } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { Problem } from "../parts/notice";
import { EmptyBody, Panel, Skeleton } from "../parts/panel";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";

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

interface WorkerRow {
  name: string;
  version: string;
  slots: number;
  started_at: string;
  seen_at: string;
  is_working: boolean;
  running: number;
}

const ROLES: Record<ReaderRow["role"], string> = {
  reader: "reader",
  sync: "walagent sync",
  tail: "walagent tail",
  standby: "standby",
  other: "other slot",
};

export function Readers() {
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

export function Workers() {
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
