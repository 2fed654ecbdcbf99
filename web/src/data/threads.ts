/** The rows of the page of threads, as `console.NAME` gives them. */
import { useMemo, useState } from "react";

import { base } from "./base";
import { usePages } from "./pages";
import { useQueryOnce } from "./queries";
import type { RunState } from "./runs";
import { shape, useShape } from "./shapes";

export type ThreadState = "active" | "paused" | "completed" | "archived";

/** `threads`: live; parameters: archived, limit. */
export interface ThreadRow {
  id: string;
  title: string;
  state: ThreadState;
  last_number: string;
  active_at: string;
  type: ThreadEvent["type"] | null;
  author: string | null;
  text: string | null;
  is_mine: boolean;
}

/** `thread`: live; one row, or none if it does not exist or may not be seen. */
export interface Thread {
  id: string;
  title: string;
  state: ThreadState;
  last_number: string;
  agent_turns: number;
  max_agent_turns: number;
  summary: string | null;
  summary_upto: string;
  created_by: string;
  created_at: string;
  role: string | null;
  is_member: boolean;
  can_post: boolean;
  can_manage: boolean;
}

export interface Member {
  name: string;
  kind: "user" | "agent" | "service";
  role: string;
  joined_at: string;
  seen: string;
  active: boolean;
}

export interface ThreadEvent {
  number: string;
  id: string;
  type: "system" | "text" | "tool_use" | "tool_result";
  author: string;
  author_kind: Member["kind"];
  data: Record<string, unknown>;
  run_id: string | null;
  created_at: string;
}

export interface Fact {
  id: string;
  subject: string;
  subject_kind: Member["kind"];
  predicate: string;
  object: string;
  category: string;
  confidence: string;
  disputed: boolean;
  created_at: string;
  said_by: string | null;
}

export interface Turn {
  id: string;
  agent: string;
  state: RunState;
  kind: string;
  attempt: number;
  max_attempts: number;
  next_attempt_at: string | null;
  what: string | null;
  cost: string | null;
  tokens: string;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  step: string | null;
  has_context: boolean;
}

/** `principals`: who can be added to a thread. */
export interface Candidate {
  name: string;
  kind: Member["kind"];
  takes_turns: boolean;
}

/** `run_prompt`: the first request of a run. */
export interface Prompt {
  run_id: string;
  system: string;
  messages: { role: string; text: string }[];
  tools: { name: string; description: string; input_schema: unknown }[];
}

const idOf = (row: { id: string }) => row.id;
const THREADS = 100; // of a page
const latest = { limit: "200", before: "" };

export const threadShape = (name: "thread" | "thread_events" | "thread_members", thread: string) =>
  shape(
    name,
    (row) => String(row[name === "thread" ? "id" : name === "thread_events" ? "number" : "name"]),
    name === "thread_events" ? { thread, ...latest } : { thread },
  );

/** The list of threads that are not archived. */
export const listShape = () =>
  shape("threads", (row) => String(row.id), { archived: "false", before: "", limit: String(THREADS) });

export const useThreads = (isArchived: boolean) => {
  const archived = String(isArchived);
  const live = useShape<ThreadRow>("threads", idOf, { archived, before: "", limit: String(THREADS) });
  const first = useMemo(() => live.rows.toSorted((a, b) => b.active_at.localeCompare(a.active_at)), [live.rows]);
  const older = usePages<ThreadRow>(
    "threads",
    { archived },
    { limit: THREADS, first, before: (row) => `${row.active_at} ${row.id}` },
  );
  // One that was older is in the first page, too, once something happens in it.
  const rows = useMemo(
    () => [...new Map(older.rows.toReversed().map((row) => [row.id, row])).values()].reverse(),
    [older.rows],
  );
  return { ...live, rows, older: { ...older, isEnd: live.isLoading || older.isEnd } };
};
export const useThread = (thread: string) => useShape<Thread>("thread", idOf, { thread });
export const useMembers = (thread: string) => {
  const live = useShape<Member>("thread_members", (row) => row.name, { thread });
  const order = (each: Member) => (each.kind === "agent" ? 0 : 1);
  return {
    ...live,
    rows: useMemo(
      () =>
        live.rows.toSorted(
          (a, b) => order(a) - order(b) || a.joined_at.localeCompare(b.joined_at) || a.name.localeCompare(b.name),
        ),
      [live.rows],
    ),
  };
};
export const useFacts = (thread: string) => {
  const live = useShape<Fact>("thread_facts", idOf, { thread });
  return {
    ...live,
    rows: useMemo(() => live.rows.toSorted((a, b) => b.created_at.localeCompare(a.created_at)), [live.rows]),
  };
};
export const useTurns = (thread: string) => {
  const live = useShape<Turn>("thread_turns", idOf, { thread, limit: "50" });
  return { ...live, rows: useMemo(() => live.rows.toSorted((a, b) => Number(b.id) - Number(a.id)), [live.rows]) };
};
/** Turns that are executed now, of all threads. */
export const useBusy = () => useShape<{ id: string; thread_id: string; agent: string }>("turns", idOf);
export const useCandidates = (thread: string, skip = false) =>
  useQueryOnce<Candidate>("principals", { thread }, { skip });
export const usePrompt = (run: string | undefined) =>
  useQueryOnce<Prompt>("run_prompt", { run: run ?? "" }, { skip: !run });

/** The latest events, and those that were there while the page is open: events never change. */
export function useEvents(thread: string, earlier: readonly ThreadEvent[]) {
  const live = useShape<ThreadEvent>("thread_events", (row) => row.number, { thread, ...latest });
  const [rows, keep] = useState<readonly ThreadEvent[]>([]);
  const known = new Set(rows.map((each) => each.number));
  const added = new Map([...earlier, ...live.rows].map((each) => [each.number, each]));
  for (const number of known) added.delete(number);
  if (added.size) keep([...rows, ...added.values()].sort((a, b) => Number(a.number) - Number(b.number)));
  return { ...live, rows };
}

export const titleOf = (thread: { title: string }): string => thread.title || "Untitled thread";

/** The address with which who is signed in joins a thread. */
export const invitation = (thread: string): string => `${location.origin}${base}join?thread=${thread}`;
