/** What waits for a person. */
import { Link, linkOptions } from "@tanstack/react-router";

import { number } from "../data/format";
import { type WaitRow } from "../data/home";
import { EmptyBody, Panel, Skeleton } from "../parts/panel";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";

export function Waits({ rows, isLoading }: { rows: readonly WaitRow[]; isLoading: boolean }) {
  const sorted = [...rows].sort(
    (a, b) =>
      ORDER[a.kind] - ORDER[b.kind] ||
      (a.expires_at ?? "9").localeCompare(b.expires_at ?? "9") ||
      a.since.localeCompare(b.since),
  );
  return (
    <Panel
      title="Waits for a person"
      aside={rows.length > 0 && <span className="muted">{number(rows.length)}</span>}
      end={rows.some((row) => row.approval_id) && <Link to="/approvals">Review all</Link>}
      flush
    >
      {isLoading ? (
        <Skeleton rows={3} />
      ) : sorted.length === 0 ? (
        <EmptyBody title="Nothing waits for a person">Calls to a tool that needs approval will appear here.</EmptyBody>
      ) : (
        <Table
          label="Waits for a person"
          rows={sorted.slice(0, 8)}
          rowKey={(row) => row.id}
          columns={[
            {
              title: "What",
              className: "inline nowrap",
              cell: (row) => <State state={row.kind} word={WAIT_WORDS[row.kind]} />,
            },
            { title: "About", className: "c0", cell: (row) => <About row={row} /> },
            { title: "Since", className: "inline nowrap", cell: (row) => <Time at={row.since} /> },
            {
              title: "Expires",
              label: "Expires",
              className: "num nowrap inline",
              cell: (row) => (row.expires_at ? <Time at={row.expires_at} /> : <span className="muted">never</span>),
            },
          ]}
        />
      )}
    </Panel>
  );
}

/** What stands still first, then what expires first. */
const ORDER: Record<WaitRow["kind"], number> = { broken: 0, review: 1, approval: 2, question: 2 };

const WAIT_WORDS: Record<WaitRow["kind"], string> = {
  approval: "approval",
  review: "outcome unknown",
  broken: "broken attachment",
  question: "question",
};

function About({ row }: { row: WaitRow }) {
  const text = (
    <>
      {row.call && <code>{row.call}</code>} {row.about} {row.run_id && <span className="muted">run {row.run_id}</span>}
    </>
  );
  if (row.approval_id)
    return (
      <Link className="plain clip wrap-s" to="/approvals" search={{ approval: row.approval_id }}>
        {text}
      </Link>
    );
  return (
    <Link
      className="plain clip"
      {...(row.run_id
        ? linkOptions({ to: "/runs/$run", params: { run: row.run_id } })
        : linkOptions({ to: "/agents" }))}
    >
      {text}
    </Link>
  );
}
