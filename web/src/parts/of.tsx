/** What a run is of: the row of its change, or the thread of its turn. */
import { linkOptions } from "@tanstack/react-router";

import { tableName } from "../data/format";
import type { RunRow } from "../data/runs";
import type { Address } from "./address";

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
      {run.title &&
        (quoted ? (
          <>
            “<bdi>{run.title}</bdi>”
          </>
        ) : (
          <bdi className="muted">{run.title}</bdi>
        ))}
    </>
  );
}

/** The page of what a run is of. */
export function pathOf(run: Subject): Address | null {
  if (run.thread) return linkOptions({ to: "/threads/$thread", params: { thread: run.thread } });
  return run.relation
    ? linkOptions({ to: "/tables/$table", params: { table: run.relation }, search: { key: run.key ?? undefined } })
    : null;
}
