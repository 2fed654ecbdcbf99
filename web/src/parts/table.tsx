/** Short tables; long lists are in `parts/list`. */
import type { ReactNode } from "react";

export interface Column<T> {
  title: ReactNode;
  cell: (row: T) => ReactNode;
  /** `num`, `clip`, `c0` (takes what is left), `hide-m`, `hide-s`, `nowrap`. */
  className?: string;
  /** The name of the column where rows are cards. */
  label?: string;
}

interface TableProps<T> {
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  label?: string;
  head?: boolean;
  className?: string;
}

export function Table<T>({ columns, rows, rowKey, label, head = true, className = "cards" }: TableProps<T>) {
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label={label}>
      <table className={className}>
        {head && (
          <thead>
            <tr>
              {columns.map((column, i) => (
                <th key={i} className={column.className?.replace(/\b(clip|c0|inline)\b/g, "")} scope="col">
                  {column.title}
                </th>
              ))}
            </tr>
          </thead>
        )}
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column, i) => (
                <td key={i} className={column.className} data-l={column.label}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
