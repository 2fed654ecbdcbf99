/** How much of what an agent wrote others left as it was. */
import { Link } from "@tanstack/react-router";

import { type Accuracy, accuracyOf } from "../data/agents";
import { number } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { Table } from "../parts/table";

/** By version and column, of 30 days; nothing if it has written nothing. */
export function Kept({ agent, attachment }: { agent: string; attachment: string }) {
  const { rows } = useQueryOnce<Accuracy>("accuracy", { agent });
  const shown = (rows ?? []).filter((row) => row.attachment === attachment);
  if (!shown.length) return null;
  return (
    <section className="pad stack tight" aria-label="Accuracy">
      <h3>Accuracy</h3>
      <p className="muted">
        Of the values that it wrote in 30 days, those that were not wrong: corrected, or written by a run that people
        say was wrong. One is confirmed if it has stood for 7 days.
      </p>
      <Table<Accuracy>
        label="Accuracy"
        rows={shown}
        rowKey={(row) => `${row.version} ${row.column_name}`}
        columns={[
          {
            title: "Column",
            className: "c0",
            cell: (row) => (
              <>
                <code>{row.column_name}</code> <span className="muted">v{row.version}</span>
              </>
            ),
          },
          {
            title: "Accuracy",
            label: "Accuracy",
            className: "num inline",
            cell: (row) => <b>{accuracyOf(row)}</b>,
          },
          { title: "Written", label: "Written", className: "num inline", cell: (row) => number(row.written) },
          {
            title: "Corrected",
            label: "Corrected",
            className: "num inline",
            cell: (row) =>
              Number(row.corrected) ? (
                <Link
                  to="/changes"
                  search={{ tab: "corrections", agent, column: row.column_name }}
                  aria-label={`${row.corrected} corrections of ${row.column_name}`}
                >
                  {number(row.corrected)}
                </Link>
              ) : (
                <span className="muted">0</span>
              ),
          },
          { title: "Wrong", label: "Wrong", className: "num inline", cell: (row) => number(row.wrong) },
          {
            title: "Changed in bulk",
            label: "Changed in bulk",
            className: "num hide-m",
            cell: (row) => number(row.changed_in_bulk),
          },
          { title: "Confirmed", label: "Confirmed", className: "num inline", cell: (row) => number(row.confirmed) },
        ]}
      />
    </section>
  );
}
