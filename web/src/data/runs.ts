/**
 * The rows of the pages home, runs, run, approvals and failed, as `console.NAME` gives them.
 *
 * A parameter that is not given is the empty text.  int8 and numeric are text, times ISO 8601.
 */
import { useMemo } from "react";

import { usePages } from "./pages";
import { type Params, useQueryOnce } from "./queries";
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
  for?: string;
  why?: string;
  reused?: { run: number };
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

/** `approvals`: live, pending ones of all, oldest first. `approval_history`: decided ones; parameters: tool, before, limit. */
export interface ApprovalRow {
  id: string;
  run_id: string;
  agent: string | null;
  tool: string;
  /** Of the arguments, with bound ones first, as text. */
  values: string | null;
  /** Each argument as text, cut: what lists show, sort and filter by. */
  brief: Record<string, string>;
  arguments: Record<string, unknown>;
  edited: Record<string, unknown> | null;
  digest: string;
  run_as: string;
  state: "pending" | "approved" | "rejected" | "expired" | "cancelled";
  risk: string | null;
  requested_by: string[];
  four_eyes: boolean;
  relation: string | null;
  key: string | null;
  title: string | null;
  thread: string | null;
  asked_at: string;
  expires_at: string;
  decided_by: string | null;
  decided_at: string | null;
  reason: string | null;
}

export interface ShownArgument {
  name: string;
  text: string;
  kind: string;
  /** The column of the row that it is bound to. */
  bound: string | null;
}

/** `approval`: what a decision needs besides; parameter: id. */
export interface ApprovalDetail extends ApprovalRow {
  /** Argument by name: the column of the row that it is bound to. */
  bound: Record<string, string>;
  /** Every argument as text, bound ones first. */
  shown: ShownArgument[];
  arguments_text: string;
  types: Record<string, string> | null;
  content: Record<string, unknown> | null;
  effect: string | null;
  function: string | null;
  said: string | null;
  can_decide: boolean;
  /** Whether it is a question of an agent (ask_human). */
  is_question: boolean;
}

/** What became of failures with the same agent, SQLSTATE and reason without values. */
export type IssueState = "new" | "ongoing" | "regressed" | "resolved" | "muted";

/** `failures`: failed and dead runs by agent and reason; parameters: since (an interval), q. */
export interface FailureRow {
  id: string;
  issue: IssueState;
  /** Without values. */
  reason: string;
  /** The reason of one of its runs. */
  example: string | null;
  sqlstate: string | null;
  message: string | null;
  agent: string;
  tool: string | null;
  versions: Record<string, number> | null;
  /** Runs that failed or are dead, and their states: `dead,failed`. */
  runs: string;
  states: string | null;
  /** Runs that wait for another attempt. */
  waiting: string;
  spark: number[];
  first_at: string;
  last_at: string;
  decided_at: string | null;
  resolved_in: "present" | "next" | null;
  muted_until: string | null;
  assignee: string | null;
  changed_by: string | null;
  /** In which version it can be resolved: the present one, if that does not fail; null: no agent acts. */
  fixable_in: "present" | "next" | null;
  /** The period that was asked for. */
  ended: string;
}

/** `waits`: live; what waits for a person. */
export interface WaitRow {
  id: string;
  kind: "approval" | "review" | "broken" | "question";
  run_id: string | null;
  approval_id: string | null;
  agent: string | null;
  call: string | null;
  about: string;
  since: string;
  expires_at: string | null;
}

/** What a person must act on, the most urgent first: 1 stands still, 2 will be lost, 3 costs; 4 can wait. */
export interface ProblemRow {
  urgency: 1 | 2 | 3 | 4;
  kind:
    | "reader"
    | "slot"
    | "attachment"
    | "review"
    | "worker"
    | "gap"
    | "budget"
    | "foreign"
    | "approval"
    | "regression"
    | "unread";
  text: string;
  detail: string | null;
  /** A command, or a statement of SQL. */
  fix: string | null;
  since: string | null;
}

/** `home`: one row. */
export interface HomeRow {
  runs_today: string;
  failed_today: string;
  p50_ms: number | null;
  p95_ms: number | null;
  pending: string;
  running: string;
  cost_today: string | null;
  cost_limit: string | null;
  lag_seconds: number | null;
  lag_bytes: string | null;
  checkpoint: string | null;
  standbys: number | null;
  workers: number | null;
  problems: ProblemRow[];
  runs_spark: number[];
  failed_spark: number[];
}

/** `throughput`: a row for each of the last 60 minutes. */
export interface MinuteRow {
  minute: string;
  finished: number;
  failed: number;
  p50_ms: number | null;
  p95_ms: number | null;
  lag_ms: number | null;
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
export const useApprovals = () => {
  const live = useShape<ApprovalRow>("approvals", idOf);
  return { ...live, rows: useMemo(() => [...live.rows].sort((a, b) => Number(a.id) - Number(b.id)), [live.rows]) };
};
export const useApproval = (id: string) => useQueryOnce<ApprovalDetail>("approval", { id }, { skip: !id });
/** What decisions about several calls bind; at most 100. */
export const useApprovalsRead = (ids: readonly string[]) =>
  useQueryOnce<ApprovalDetail>("approvals_read", { ids: ids.join() }, { skip: ids.length === 0 });
export const useApprovalHistory = (params: Params, skip = false) =>
  useQueryOnce<ApprovalRow>(
    "approval_history",
    { tool: "", decided_by: "", before: "", limit: 50, ...params },
    { skip },
  );
/** Decided calls in pages: of one person, or of all. */
export const useDecided = (by = "", skip = false) =>
  usePages<ApprovalRow>("approval_history", { tool: "", decided_by: by }, { limit: 100, before: idOf, skip });
export const useFailures = (since: string, q = "") =>
  useQueryOnce<FailureRow>("failures", { since, q }, { every: 10_000 });
export const useWaits = () => useShape<WaitRow>("waits", idOf);
export const useHome = () => useQueryOnce<HomeRow>("home", {}, { every: 5_000 });
export const useThroughput = () => useQueryOnce<MinuteRow>("throughput", {}, { every: 15_000 });
