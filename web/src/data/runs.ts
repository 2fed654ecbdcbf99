/**
 * The rows of runs and of one run, as `console.NAME` gives them.
 *
 * A parameter that is not given is the empty text.  int8 and numeric are text, times ISO 8601.
 */
import { useMemo } from "react";

import { useQueryOnce } from "./queries";
import { useShape } from "./shapes";

export type RunState =
  | "pending"
  | "running"
  | "waiting_approval"
  | "waiting_retry"
  | "needs_review"
  | "succeeded"
  | "failed"
  | "dead"
  | "cancelled"
  | "skipped";

/** `runs`: one page, newest first; parameters: `RUN_FILTERS`, before (an ID), limit. */
export interface RunRow {
  id: string;
  state: RunState;
  kind: string;
  agent: string | null;
  version: number | null;
  op: string | null;
  relation: string | null;
  key: string | null;
  /** A short text of the row that a person recognizes, such as its subject. */
  title: string | null;
  /** The thread of a turn, if one may see it; then `title` is the thread's. */
  thread: string | null;
  /** What happened: tools called, or why it waits or failed. */
  what: string | null;
  /** From the first claim to the end; null: it has not ended. */
  duration_ms: number | null;
  model: string | null;
  cost: string | null;
  tokens: string;
  attempt: number;
  max_attempts: number;
  blocked_by: string | null;
  next_attempt_at: string | null;
  committed_at: string | null;
  created_at: string;
  finished_at: string | null;
}

/** The tokens of the filter bar; each is a parameter of `runs`, `runs_count` and of bulk actions. */
export const RUN_FILTERS = [
  "state",
  "agent",
  "table",
  "key",
  "kind",
  "reason",
  "sqlstate",
  "model",
  "duration",
  "cost",
  "since",
  "until",
  "ended",
  "tenant",
  "q",
] as const;
export type RunFilter = Partial<Record<(typeof RUN_FILTERS)[number], string>>;

/** A filter, and the lowest run in which text is searched. */
export type Search = RunFilter & { oldest?: string };

/** All parameters of a filter, as the queries want them; `table` is a word of the shape protocol. */
export function filterParams(search: Search): Record<string, string> {
  return Object.fromEntries(
    [...RUN_FILTERS, "oldest" as const].map((name) => [name === "table" ? "relation" : name, search[name] ?? ""]),
  );
}

/** `run`: one row, or none if it does not exist or may not be seen. */
export interface RunDetail extends RunRow {
  run_as: string | null;
  change: Change | null;
  merged: Change[] | null;
  commit_lsn: string | null;
  ordinal: number | null;
  changes: number | null;
  generation: number;
  xid: string | null;
  ordering_key: string | null;
  worker: string | null;
  lease_expires_at: string | null;
  cause_run: string | null;
  depth: number;
  matched_by: string | null;
  started_at: string | null;
  result: string | null;
  error: { reason?: string; sqlstate?: string } | null;
  input_tokens: string;
  output_tokens: string;
  working_ms: number | null;
  system_prompt: string | null;
  /** By tool: the columns that its arguments are bound to. */
  bound: Record<string, Record<string, string>> | null;
}

export interface Change {
  op: string;
  schema: string;
  table: string;
  new?: Record<string, unknown> | null;
  old?: Record<string, unknown> | null;
  unchanged?: string[];
  truncated?: Record<string, number>;
  /** How many columns the login of this principal cannot read in the table. */
  hidden?: number;
}

/** `run_steps`: live; parameter: run. */
export interface Step {
  run_id: string;
  seq: number;
  kind: "reply" | "intent" | "result" | "approval" | "decision" | "note" | "error";
  content: StepContent;
  input_tokens: number | null;
  cached_tokens: number | null;
  output_tokens: number | null;
  cost: string | null;
  duration_ms: number | null;
  recorded_at: string;
}

export interface StepContent {
  model?: string;
  parts?: Part[];
  name?: string;
  call?: string;
  call_id?: string;
  arguments?: Record<string, unknown> | null;
  content?: unknown;
  is_error?: boolean;
  tool?: string;
  decision?: string;
  by?: string;
  reason?: string;
  edited?: Record<string, unknown>;
  text?: string;
  changes?: RowChange[];
  fallback?: string;
  tier?: string;
  /** In a note: the model of a cascade that is asked from then on. */
  cascade?: string;
  /** Of the control sample of a cascade: the stage, or that there is no reply. */
  control?: number | string;
  for?: string;
  why?: string;
  reused?: { run: number };
  /** In a note: the request had no answer for this row, which is asked alone. */
  alone?: boolean;
  /** Of how many runs the request was. */
  rows?: number;
  /** Of a fork: a step of the run that it goes on from. */
  kept?: boolean;
  fork?: { run: number; step: number };
  /** Who replied in place of the model. */
  written_by?: string;
  [more: string]: unknown;
}

/** What a tool call changed in the database, in the transaction of its step. */
export interface RowChange {
  relation: string;
  key: string | null;
  op: string;
  old: Record<string, unknown> | null;
  new: Record<string, unknown> | null;
}

export type Part =
  | { text: string }
  | { call: string; name: string; arguments: Record<string, unknown> | null; raw?: string }
  | { thinking: unknown };

/** `run_chain`: the causes of a run, the run, and the runs that it caused; parameter: run. */
export interface ChainRow {
  id: string;
  agent: string | null;
  relation: string | null;
  op: string | null;
  depth: number;
  state: RunState;
  cause_run: string | null;
}

/** The state as a badge names it. */
export function badge(state: RunState): string {
  return { waiting_approval: "approval", waiting_retry: "retry", needs_review: "review" }[state as string] ?? state;
}

/** Whether a run can still change. */
export function isOpen(state: RunState): boolean {
  return !["succeeded", "failed", "dead", "cancelled", "skipped"].includes(state);
}

const idOf = (row: { id: string }) => row.id;

export const useRuns = (search: Search | null, limit: number) =>
  useShape<RunRow>("runs", idOf, search && { ...filterParams(search), before: "", limit: String(limit) });
export const useRunsCount = (search: Search, skip = false) =>
  useQueryOnce<{ count: string; is_least: boolean }>("runs_count", filterParams(search), { every: 15_000, skip });
export const useRun = (run: string) => useShape<RunDetail>("run", idOf, { run });
export const useSteps = (run: string) => {
  const live = useShape<Step>("run_steps", (step) => `${step.run_id}/${step.seq}`, { run });
  return { ...live, rows: useMemo(() => [...live.rows].sort((a, b) => a.seq - b.seq), [live.rows]) };
};
export const useChain = (run: string) => useQueryOnce<ChainRow>("run_chain", { run }, { every: 10_000 });
