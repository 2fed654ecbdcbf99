/** What a run is of: the row of its change, or the thread of its turn. */
import { tableName, tablePath } from "../data/format";
import type { RunRow } from "../data/runs";

export type Subject = Pick<RunRow, "relation" | "key" | "thread" | "title"> & { kind?: string };

/** Table and key, in the face of code; of a turn, the word thread and its title or ID. */
export function Of({ run, strong = false, quoted = false }: { run: Subject; strong?: boolean; quoted?: boolean }) {
  const name = run.thread ? "thread" : run.relation ? tableName(run.relation) : run.kind;
  const key = run.thread ? (run.title ? null : run.thread.slice(0, 8)) : run.key;
  return (
    <>
      <span className="mono">
        {name}
        {key && " "}
        {strong && key ? <b className="strong">{key}</b> : key}
      </span>{" "}
      {run.title && (quoted ? `“${run.title}”` : <span className="muted">{run.title}</span>)}
    </>
  );
}

/** The page of what a run is of. */
export function pathOf(run: Subject): { to: string; search?: object } | null {
  if (run.thread) return { to: `/threads/${run.thread}` };
  return run.relation ? { to: tablePath(run.relation), search: { key: run.key ?? undefined } } : null;
}
