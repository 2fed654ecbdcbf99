/** Rows, and what changed in them: with + and −, never by color alone. */
import type { ReactNode } from "react";

import { textOf } from "../data/exact";
import { visible } from "../data/visible";

export type Cells = Readonly<Record<string, unknown>>;

/** A large value that the WAL left out because it did not change. */
export const UNCHANGED = Symbol("unchanged");

/** A text without characters, which would look like no value. */
export function Blank() {
  return (
    <span className="null" title="Empty text">
      ''
    </span>
  );
}

export function Cell({ value }: { value: unknown }): ReactNode {
  if (value === null || value === undefined) return <span className="null">NULL</span>;
  if (value === "") return <Blank />;
  if (value === UNCHANGED) return <span className="null">unchanged</span>;
  return visible(textOf(value));
}

/** One row: plain, or as inserted or deleted. */
export function RowTable({
  row,
  kind,
  marked,
  label,
  notes = {},
}: {
  row: Cells;
  kind?: "insert" | "delete";
  marked?: readonly string[];
  label?: string;
  notes?: Readonly<Record<string, ReactNode>>;
}) {
  const sign = kind === "insert" ? "+ " : kind === "delete" ? "− " : "";
  const className = kind === "insert" ? "now" : kind === "delete" ? "was" : undefined;
  return (
    <table className="rowdiff" aria-label={label}>
      <tbody>
        {Object.entries(row).map(([name, value]) => (
          <tr key={name}>
            <td>{name}</td>
            <td className={className ?? (marked?.includes(name) ? "now" : undefined)}>
              {sign}
              <Cell value={value} /> {notes[name] && <span className="muted">{notes[name]}</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Before and after; columns that did not change are left out if *changedOnly*. */
export function RowDiff({
  title,
  before,
  after,
  changedOnly = true,
}: {
  title: ReactNode;
  before: Cells | null;
  after: Cells | null;
  changedOnly?: boolean;
}) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const changed = (name: string) => JSON.stringify(before?.[name] ?? null) !== JSON.stringify(after?.[name] ?? null);
  const shown = changedOnly && before && after ? names.filter(changed) : names;
  return (
    <table className="rowdiff panel">
      <thead>
        <tr>
          <th>{title}</th>
          <th>− before</th>
          <th>+ after</th>
        </tr>
      </thead>
      <tbody>
        {shown.map((name) => (
          <tr key={name}>
            <td>{name}</td>
            <td className={before && changed(name) ? "was" : undefined}>
              {before && name in before ? <Cell value={before[name]} /> : ""}
            </td>
            <td className={after && changed(name) ? "now" : undefined}>
              {after && name in after ? <Cell value={after[name]} /> : ""}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
