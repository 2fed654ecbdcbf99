/** Gaps on the page of the WAL: what was lost, since when, and what was done for each attachment. */
import { bytes } from "../data/format";
import { chosen, type Gap } from "../data/gaps";
import { useQueryOnce } from "../data/queries";
import { visible } from "../data/visible";
import { Copy } from "../parts/copy";
import { Problem } from "../parts/notice";
import { EmptyBody, Panel, Skeleton } from "../parts/panel";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";

const RESYNC = "walagent wal resync";

export function Gaps() {
  const { rows, error, again } = useQueryOnce<Gap>("gaps", {}, { every: 15_000 });
  const open = (rows ?? []).filter((row) => row.resolved_at === null).length;
  return (
    <Panel
      title="Gaps"
      id="gaps"
      aside={rows && <span className="muted">{`${rows.length} in total, ${open} open`}</span>}
      flush
    >
      {error && !rows ? (
        <Problem error={error} again={again} />
      ) : rows === null ? (
        <Skeleton rows={1} />
      ) : rows.length === 0 ? (
        <EmptyBody title="No gap">
          If WAL is lost before it is read, its range is recorded here with what was done about it.
        </EmptyBody>
      ) : (
        <Table<Gap>
          label="Gaps"
          rows={rows}
          rowKey={(row) => row.id}
          columns={[
            {
              title: "State",
              className: "inline nowrap",
              cell: (row) =>
                row.resolved_at ? <State state="done" word="resolved" /> : <State state="review" word="open" />,
            },
            { title: "Lost", className: "wrapped", cell: (row) => <Lost row={row} /> },
            { title: "Reason", className: "wrapped", cell: (row) => visible(row.reason) },
            { title: "What was done", className: "wrapped", cell: (row) => <Done row={row} /> },
            {
              title: "Found",
              label: "Found",
              className: "num inline nowrap",
              cell: (row) => <Time at={row.found_at} />,
            },
          ]}
        />
      )}
    </Panel>
  );
}

function Lost({ row }: { row: Gap }) {
  return (
    <>
      <span className="mono">
        {row.from_lsn ?? "unknown"} to {row.to_lsn ?? "unknown"}
      </span>{" "}
      <span className="muted">
        {row.bytes !== null && <>{bytes(row.bytes)}, </>}
        slot {row.slot}
        {row.since && (
          <>
            , since <Time at={row.since} />
          </>
        )}
      </span>
    </>
  );
}

function Done({ row }: { row: Gap }) {
  if (row.resolved_at === null)
    return (
      <span className="row wrap">
        Nothing is ingested until somebody chooses: <code>{RESYNC}</code> <Copy text={RESYNC} />
      </span>
    );
  return (
    <>
      {row.resolution ?? "resolved"}
      {row.resolved_by && ` by ${row.resolved_by}`} <Time at={row.resolved_at} />
      {row.choices.map((each) => (
        <span className="block muted" key={each.attachment}>
          {visible(chosen(each))}
        </span>
      ))}
    </>
  );
}
