/** A row that a run changed, and what somebody made of it later. */
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { type Correction, correctedValues, type Line, linesOf, type RowChanged, type Value } from "../data/changes";
import { number, tableName } from "../data/format";
import { visible } from "../data/visible";
import { Name } from "./name";
import { Blank } from "./rowdiff";
import { Time } from "./time";

export const WITHOUT = {
  null: ["NULL", "NULL"],
  unknown: ["not known", "The WAL does not have the value."],
  omitted: ["not recorded", "The value is too large, or the agent may not see it."],
  hidden: ["hidden", "The role approver sees it, and a principal whose login can read it in the table."],
} as const;

/** A value as text, never as markup; or why there is none. */
function Shown({ value }: { value: Value }): ReactNode {
  if (typeof value === "string") {
    const [word, title] = WITHOUT[value];
    return (
      <span className="null" title={title}>
        {word}
      </span>
    );
  }
  if (value.text === "") return <Blank />;
  return (
    <>
      <bdi>{visible(value.text)}</bdi>
      {value.isCut && (
        <span className="null" title="The first 300 characters; walagent changes --json has all of them.">
          …
        </span>
      )}
    </>
  );
}

const FEW = 8; // columns that are shown at first

export function Lines({ lines, label }: { lines: readonly Line[]; label: string }) {
  const [shows, showAll] = useState(false);
  if (lines.length === 0) return null;
  const shown = shows ? lines : lines.slice(0, FEW);
  return (
    <>
      <table className="rowdiff" aria-label={label}>
        <tbody>
          {shown.map(({ column, before, after }) => (
            <tr key={column}>
              <td>{visible(column)}</td>
              {before && (
                <td className="was">
                  − <Shown value={before} />
                </td>
              )}
              {after && (
                <td className="now">
                  + <Shown value={after} />
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {lines.length > shown.length && (
        <button type="button" className="btn quiet small fit" onClick={() => showAll(true)}>
          {number(lines.length - shown.length)} more columns
        </button>
      )}
    </>
  );
}

export function RowLink({ row }: { row: Pick<RowChanged, "relation" | "key"> }) {
  return (
    <Link
      className="mono plain"
      to="/tables/$table"
      params={{ table: row.relation }}
      search={{ key: row.key ?? undefined }}
    >
      {visible(tableName(row.relation))} {row.key !== null && <b className="strong">{visible(row.key)}</b>}
    </Link>
  );
}

/** Whose run it was; nothing on the page of the run. */
export function OfRun({
  row,
}: {
  row: { run_id: string; agent: string | null; version: number | null; kind?: string };
}) {
  return (
    <>
      {row.agent ? (
        <span className="nowrap">
          <Link to="/agents/$agent" params={{ agent: row.agent }} activeProps={{}}>
            <Name text={visible(row.agent)} />
          </Link>{" "}
          {row.version !== null && <span className="muted">v{row.version}</span>}
        </span>
      ) : (
        <span className="soft">{row.kind ?? "run"}</span>
      )}
      <Link className="nowrap" to="/runs/$run" params={{ run: row.run_id }} activeProps={{}}>
        run {row.run_id}
      </Link>
    </>
  );
}

/** What a change says of itself beside its values. */
function noteOf({ op, rows, key }: RowChanged): string {
  const count = Number(rows);
  if (op === "truncate") return "all rows were removed";
  if (op === "more") return `${number(count)} more ${count === 1 ? "change was" : "changes were"} not recorded`;
  return key === null ? "key not known" : "";
}

export function ChangedRow({ row, isOfPage = false }: { row: RowChanged; isOfPage?: boolean }) {
  const note = noteOf(row);
  return (
    <article className="chg" aria-label={`Change of ${row.relation} ${row.key ?? ""}`}>
      <p className="row wrap">
        <span className="muted nowrap when">
          <Time at={row.committed_at} />
        </span>
        {!isOfPage && <OfRun row={row} />}
        <span className="chip mono">{row.op.toUpperCase()}</span>
        <RowLink row={row} />
        {row.source === "trigger" && <span className="chip">by a trigger</span>}
        {row.tool && row.source !== "trigger" && (
          <span className="muted">
            by <code>{visible(row.tool)}</code>
          </span>
        )}
        {row.undoes && !isOfPage && (
          <span className="muted">
            takes back{" "}
            <Link to="/runs/$run" params={{ run: row.undoes }} activeProps={{}}>
              run {row.undoes}
            </Link>
          </span>
        )}
        {note && <span className="soft">{note}</span>}
      </p>
      <Lines lines={linesOf(row)} label={`Columns of ${row.relation} ${row.key ?? ""}`} />
    </article>
  );
}

const KINDS = {
  changed: "changed later",
  deleted: "row deleted later",
  reverted: "taken back",
  bulk: "changed with many rows",
} as const;

export function CorrectedValue({ row, isOfPage = false }: { row: Correction; isOfPage?: boolean }) {
  const { wrote, value } = correctedValues(row);
  const count = Number(row.rows);
  return (
    <article className="chg" aria-label={`Correction of ${row.relation} ${row.key ?? ""}`}>
      <p className="row wrap">
        <span className="muted nowrap when">
          <Time at={row.committed_at} />
        </span>
        {!isOfPage && <OfRun row={row} />}
        <span className="chip">{KINDS[row.kind]}</span>
        <RowLink row={row} />
        {row.kind === "bulk" && (
          <span className="soft">
            {visible(row.column_name)} of {number(count)} {count === 1 ? "row" : "rows"}
          </span>
        )}
        {row.corrected_by && (
          <span className="muted">
            by <Name text={visible(row.corrected_by)} />
          </span>
        )}
        {row.by_run && (
          <span className="muted">
            by{" "}
            <Link to="/runs/$run" params={{ run: row.by_run }} activeProps={{}}>
              run {row.by_run}
            </Link>
          </span>
        )}
      </p>
      {row.kind !== "bulk" && (
        <Lines
          lines={[{ column: row.column_name, before: wrote, after: value }]}
          label={`What the run wrote into ${row.column_name}, and what is there since`}
        />
      )}
    </article>
  );
}
