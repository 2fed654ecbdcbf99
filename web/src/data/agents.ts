/** Agents: their versions, and drafts of new ones. */
import type { Params } from "./queries";

export interface Limits {
  max_steps: number | null;
  max_tokens: number | null;
  max_cost: number | null;
  max_seconds: number | null;
  max_attempts: number | null;
  max_output_tokens: number | null;
}

export interface AgentVersion {
  version: number;
  made_at: string;
  made_by: string;
  is_current: boolean;
  model: string;
  system_prompt: string;
  tools: string[];
  persona: string | null;
  limits: Limits;
  /** Why the one who is signed in may not change it. */
  refusal: Refusal;
  of_file: string | null;
  /** On tables of the application: what can be tried. */
  attachments: string[];
}

export type Refusal = "role" | "login" | "owner" | null;

export interface Model {
  name: string;
  model_id: string;
  input_price: string | null;
  output_price: string | null;
}

/** What an editor holds: texts, as they are typed. */
export interface Draft {
  base: number;
  model: string;
  system_prompt: string;
  limits: Record<keyof Limits, string>;
}

export const LIMITS: readonly {
  name: keyof Limits;
  title: string;
  unit: string;
  isNeeded?: boolean;
  isDecimal?: boolean;
}[] = [
  { name: "max_steps", title: "Max steps", unit: "replies of the model in a run", isNeeded: true },
  { name: "max_seconds", title: "Max time", unit: "seconds of a run", isNeeded: true },
  { name: "max_attempts", title: "Max attempts", unit: "failed attempts of a run", isNeeded: true },
  { name: "max_tokens", title: "Max tokens", unit: "a run; empty: no limit" },
  { name: "max_cost", title: "Max cost", unit: "dollars a run; empty: no limit", isDecimal: true },
  { name: "max_output_tokens", title: "Max output", unit: "tokens a call; empty: that of the model" },
];

export function draftOf(version: AgentVersion): Draft {
  const text = (name: keyof Limits) => (version.limits[name] === null ? "" : String(version.limits[name]));
  return {
    base: version.version,
    model: version.model,
    system_prompt: version.system_prompt,
    limits: Object.fromEntries(LIMITS.map(({ name }) => [name, text(name)])) as Draft["limits"],
  };
}

/** What is wrong with a limit as it was typed. */
export function limitProblem(name: keyof Limits, text: string): string | null {
  const limit = LIMITS.find((each) => each.name === name);
  if (!text.trim()) return limit?.isNeeded ? "A number is needed." : null;
  const isNumber = limit?.isDecimal ? /^\d+(\.\d+)?$/.test(text.trim()) : /^\d{1,9}$/.test(text.trim());
  return isNumber && Number(text) > 0 ? null : `Expected a ${limit?.isDecimal ? "" : "whole "}number above 0.`;
}

/** What differs from a version, in words. */
export function changedParts(draft: Draft, version: AgentVersion): string[] {
  const was = draftOf(version);
  const parts = draft.model === was.model ? [] : [`model ${was.model} → ${draft.model}`];
  for (const { name, title } of LIMITS)
    if (draft.limits[name].trim() !== was.limits[name])
      parts.push(`${title.toLowerCase()} ${was.limits[name] || "none"} → ${draft.limits[name].trim() || "none"}`);
  return parts;
}

export function isChanged(draft: Draft, version: AgentVersion): boolean {
  return draft.system_prompt !== version.system_prompt || changedParts(draft, version).length > 0;
}

/** The values that the server takes. */
export function valuesOf(draft: Draft): Params {
  return {
    model: draft.model,
    system_prompt: draft.system_prompt,
    ...Object.fromEntries(LIMITS.map(({ name }) => [name, draft.limits[name].trim() || null])),
  };
}

const keyOf = (agent: string) => `walagent:draft:${agent}`;

export interface Kept {
  draft: Draft;
  at: string;
}

/** The draft of this tab. */
export function keptDraft(agent: string): Kept | null {
  try {
    return JSON.parse(sessionStorage.getItem(keyOf(agent)) ?? "null") as Kept | null;
  } catch {
    return null;
  }
}

export function keepDraft(agent: string, draft: Draft | null): void {
  if (draft) sessionStorage.setItem(keyOf(agent), JSON.stringify({ draft, at: new Date().toISOString() }));
  else sessionStorage.removeItem(keyOf(agent));
}

/** An attachment, or an agent without one, and what it did today. */
export interface AttachmentRow {
  id: string;
  agent: string;
  model: string;
  /** Models that are asked before it, in order. */
  cascade: string[];
  attachment: string | null;
  relation: string | null;
  ops: string[] | null;
  condition: string | null;
  run_as: string | null;
  version: number | null;
  state: string;
  paused_reason: string | null;
  /** A person; null if walagent paused it. */
  paused_by: string | null;
  backfilled: string | null;
  to_backfill: string | null;
  pending: string;
  waiting: string;
  failed: string;
  done_today: string;
  p50_ms: number | null;
  cost_today: string | null;
  columns: string[] | null;
  writes: string[] | null;
  ordering_key: string[] | null;
  max_depth: number | null;
  source: string | null;
  tools: { name: string; approval: boolean; bind: Record<string, string> | null }[];
  system_prompt: string;
  agent_version: number;
  refusal: Refusal;
}

/** What others left of what an agent wrote into a column. */
/** What a version came to, of the two of an attachment with a canary or a shadow. */
export interface VersionFigures {
  side: "baseline" | "canary" | "shadow";
  version: number;
  share: number;
  ended: string;
  failures: string | null;
  corrections: string | null;
  cost: string | null;
  latency: string | null;
  shadow: boolean;
  begun_by: string;
  rollback_if: string | null;
  min_runs: number;
  same: string;
  other: string;
  failed: string;
  waiting: string;
  latest: string[];
}

export interface Accuracy {
  attachment: string;
  version: number;
  column_name: string;
  written: string;
  corrected: string;
  changed_in_bulk: string;
  confirmed: string;
  scored: string;
  /** Corrected, or called wrong; without those that a person says were right. */
  wrong: string;
}

/** `accuracy_fell`: agents of which more was wrong in 7 days than in the 28 before, the worst first. */
export interface Fell {
  agent: string;
  written: string;
  wrong: string;
  written_before: string;
  wrong_before: string;
}

/** The share that was not wrong, never rounded up: 99.9 % is not all. */
export function accuracyOf(row: Pick<Accuracy, "written" | "wrong">): string {
  const [written, wrong] = [Number(row.written), Number(row.wrong)];
  return `${Math.floor((1_000 * (written - wrong)) / written) / 10} %`;
}
