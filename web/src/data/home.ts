/** The rows of the pages home and failed, as `console.NAME` gives them. */
import { useQueryOnce } from "./queries";
import { useShape } from "./shapes";

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

export const useFailures = (since: string, q = "") =>
  useQueryOnce<FailureRow>("failures", { since, q }, { every: 10_000 });
export const useWaits = () => useShape<WaitRow>("waits", (row) => row.id);
export const useHome = () => useQueryOnce<HomeRow>("home", {}, { every: 5_000 });
export const useThroughput = () => useQueryOnce<MinuteRow>("throughput", {}, { every: 15_000 });
