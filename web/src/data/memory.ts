/** What agents remember: the rows of the page memory, as `console.NAME` gives them. */
import type { Suggestion, Token } from "./filter";

export const MEMORY_KINDS = ["semantic", "episodic", "procedural", "conversation", "working"] as const;
export const MEMORY_STATES = ["live", "disputed", "replaced", "withdrawn", "expired"] as const;
export type MemoryState = (typeof MEMORY_STATES)[number];

/** `memories`: one page, newest first; parameters: `MEMORY_FILTERS`, before (a place), limit. */
export interface MemoryRow {
  id: string;
  agent: string;
  kind: string;
  key: string | null;
  /** At most 300 characters of the value. */
  text: string;
  /** The principal whom it is about. */
  about: string | null;
  thread_id: string | null;
  thread: string | null;
  trust: "trusted" | "untrusted";
  state: MemoryState;
  created_by: string;
  created_at: string;
  run_id: string | null;
  place: string;
}

/** `memory`: a memory whole, then what it replaced, newest first; parameter: id. */
export interface Memory {
  id: string;
  /** 0: the memory itself; 1: what it replaced. */
  depth: number;
  value: string;
  /** Whether the value is a text; else it is a JSON document. */
  is_text: boolean;
  trust: MemoryRow["trust"];
  state: MemoryState;
  importance: number;
  expires_at: string | null;
  retracted_at: string | null;
  run_id: string | null;
  event_id: string | null;
  created_by: string;
  created_at: string;
  access_count: string;
  accessed_at: string | null;
  embedding_model: string | null;
  may_change: boolean;
}

export const MEMORY_FILTERS = ["agent", "kind", "about", "key", "trust", "state", "q"] as const;
export type MemoryFilter = Partial<Record<(typeof MEMORY_FILTERS)[number], string>>;

export function memoryParams(filter: MemoryFilter): Record<string, string> {
  return Object.fromEntries(MEMORY_FILTERS.map((name) => [name, filter[name] ?? ""]));
}

const VALUES: Partial<Record<string, readonly string[]>> = {
  kind: MEMORY_KINDS,
  state: MEMORY_STATES,
  trust: ["trusted", "untrusted"],
};

/** The tokens of a filter; one with a value that no memory can have is invalid. */
export function memoryTokens(filter: MemoryFilter): Token[] {
  return MEMORY_FILTERS.flatMap((name) => {
    const value = filter[name];
    if (name === "q" || !value) return [];
    const wrong = VALUES[name] && value.split(",").find((each) => !VALUES[name]?.includes(each));
    return [wrong === undefined ? { name, value } : { name, value, invalid: `One of ${VALUES[name]?.join(", ")}` }];
  });
}

export function memorySuggestions(known: readonly { name: string; value: string }[]): Suggestion[] {
  const of = (name: string) => known.filter((each) => each.name === name).map((each) => each.value);
  return [
    { name: "agent", values: of("agent"), hint: "the agent that recalls it" },
    { name: "kind", values: MEMORY_KINDS, hint: "what is so, what happened, how something is done" },
    { name: "about", values: of("about"), hint: "the principal whom it is about" },
    { name: "key", hint: "its name" },
    { name: "trust", values: ["trusted", "untrusted"], hint: "a person stored it, or an agent" },
    { name: "state", values: MEMORY_STATES, hint: "what is not recalled is shown only with this" },
  ];
}
