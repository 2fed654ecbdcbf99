/** A part of the computer: a heading with a count, a filter, what matches. */
import { type ReactNode, useState } from "react";

interface FilteredProps<T> {
  title: string;
  what: string;
  rows: readonly T[];
  /** What of a row the filter searches. */
  text: (row: T) => string;
  empty: string;
  /** Beside the heading, instead of the count. */
  aside?: ReactNode;
  children: (rows: readonly T[]) => ReactNode;
}

export function Filtered<T>({ title, what, rows, text, empty, aside, children }: FilteredProps<T>) {
  const [filter, setFilter] = useState("");
  const wanted = filter.trim().toLowerCase();
  const found = wanted ? rows.filter((each) => text(each).toLowerCase().includes(wanted)) : rows;
  return (
    <section className="sect" aria-label={title}>
      <h3>
        {title}
        <span className="muted">
          {wanted ? `${found.length} of ` : ""}
          {rows.length} {rows.length === 1 ? what : what.endsWith("s") ? `${what}es` : `${what}s`}
          {aside}
        </span>
      </h3>
      <div className="filter">
        <input
          type="search"
          aria-label={`Filter ${title.toLowerCase()}`}
          placeholder={`Filter ${title.toLowerCase()}`}
          value={filter}
          onChange={(event) => setFilter(event.target.value)}
        />
      </div>
      {found.length > 0 ? children(found) : <p className="none">{rows.length ? `No ${what} matches.` : empty}</p>}
    </section>
  );
}
