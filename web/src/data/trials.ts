/** Trials: an agent on real rows, in a transaction that is rolled back. */
import { type AgentVersion, changedParts, type Draft, draftOf, valuesOf } from "./agents";
import { request } from "./request";
import type { Step } from "./runs";

export type Texts = Readonly<Record<string, string | null>>;

/** A row that can be tried. */
export interface Candidate {
  key: string;
  at: Texts;
  content: Texts;
}

export interface Candidates {
  rows: Candidate[];
  table: string;
  run_as: string;
  /** What the first call for one row can cost at most; null: unknown. */
  first_cost: string | null;
}

export interface Change {
  table: string;
  before: Texts | null;
  after: Texts | null;
}

export interface Tried {
  key: string;
  /** Null: the condition is not true for the row. */
  run: {
    state: string;
    error: string | null;
    result: unknown;
    tokens: number;
    cost: number | null;
    ms: number;
    steps: Step[];
  } | null;
  changes: Change[];
  not_called: { tool: string; arguments: Record<string, unknown> }[];
  not_compared: Record<string, string>;
}

export function findCandidates(attachment: string, signal: AbortSignal): Promise<Candidates> {
  return request("GET", `v1/try?${new URLSearchParams({ attachment })}`, undefined, signal);
}

/** Try one row, with a draft or as the attachment is. */
export function tryRow(
  attachment: string,
  row: Candidate,
  draft: object | null,
  approved: boolean,
  signal: AbortSignal,
): Promise<Tried> {
  return request("POST", "v1/try", { attachment, at: row.at, draft, assume_approved: approved }, signal);
}

/** What of a draft is sent: only what differs. */
export function draftValues(draft: Draft, base: AgentVersion): object {
  const was = valuesOf(draftOf(base));
  return Object.fromEntries(Object.entries(valuesOf(draft)).filter(([name, value]) => value !== was[name]));
}

/** Names a draft, so that a result is shown beside the draft that it belongs to. */
export function nameOf(draft: Draft, base: AgentVersion): string {
  return JSON.stringify([base.version, draft.system_prompt, ...changedParts(draft, base)]);
}

export function median(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  const at = sorted.length >> 1;
  if (!sorted.length) return null;
  return sorted.length % 2 ? (sorted[at] ?? null) : ((sorted[at - 1] ?? 0) + (sorted[at] ?? 0)) / 2;
}
