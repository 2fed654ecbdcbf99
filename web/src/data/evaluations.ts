/** Evaluations: what a candidate did on recorded changes, beside what was recorded. */
import { money, number } from "./format";
import type { Change } from "./runs";

/** `evaluations`: one page, newest first; parameters: `EVALUATION_FILTERS`, before (an ID), limit. */
export interface EvaluationRow {
  id: string;
  /** null: of questions. */
  attachment: string | null;
  agent: string | null;
  model: string;
  dataset: string | null;
  /** Version of the shadow; null: a replay. */
  shadow: number | null;
  state: "running" | "finished" | "broken_off";
  planned: number;
  cases: string;
  agreeing: string;
  differing: string;
  labelled: string;
  are_right: string;
  cost: string | null;
  started_at: string;
  differs: { model?: string; file?: string; prompt?: true };
}

/** `evaluation`: one; parameter: evaluation. */
export interface Evaluation extends EvaluationRow, Tested {
  judge: string | null;
  failing: string;
  were_right: string;
  judged: string;
  judged_better: string;
  judged_worse: string;
  tokens: string;
  median_seconds: number | null;
  recorded_tokens: string;
  recorded_cost: string | null;
  recorded_median_seconds: number | null;
  made_by: string;
  ended_at: string | null;
  error: string | null;
  system_prompt: string | null;
}

/** Two versions on the cases of which it is known, for both, whether they are right. */
export interface Tested {
  tested: string;
  first_right: string;
  second_right: string;
  better: string;
  worse: string;
  /** Of McNemar's exact test. */
  p: number;
}

/** `evaluation_cases`: one page, by number; parameters: evaluation, only, before (a number), limit. */
export interface CaseRow {
  number: number;
  run_id: string | null;
  case_id: string | null;
  /** null: there was no recorded run. */
  agrees: boolean | null;
  was_right: boolean | null;
  is_right: boolean | null;
  /** What the judge called right. */
  verdict: string | null;
  state: string;
  is_labelled_since: boolean;
  relation: string | null;
  key: string | null;
  title: string | null;
  expected: string | null;
  recorded: string | null;
  candidate: string;
}

export interface Label {
  values?: Record<string, unknown>;
  tools?: string[];
  result?: string;
  /** Of a question: the statement that was saved. */
  sql?: string;
}

export interface CaseCall {
  tool: string;
  arguments: Record<string, unknown>;
  state: "done" | "failed" | "open";
  reads: boolean;
}

export interface CaseOutcome {
  state: string;
  result: string | null;
  error: string | null;
  calls?: CaseCall[];
  tokens: number;
  cost: unknown;
  seconds: number;
}

/** A row that the candidate would change; of other rows than that of the case, without values. */
export interface CaseChange {
  table: string;
  operation: "insert" | "update" | "delete";
  columns: string[];
  before?: Record<string, string | null> | null;
  after?: Record<string, string | null> | null;
}

/** `evaluation_case`: one case; parameters: evaluation, number. */
export interface CaseDetail extends Omit<CaseRow, "expected" | "recorded" | "candidate" | "verdict" | "state"> {
  has_run: boolean;
  recorded: CaseOutcome | null;
  candidate: CaseOutcome & {
    not_called?: { tool: string; arguments: Record<string, unknown> }[];
    not_compared?: Record<string, string>;
    /** Of a saved question that was asked again: with the statements of the answer, and its run. */
    question?: string;
    sql?: string[];
    run?: number | null;
  };
  changes: CaseChange[];
  expected: Label | null;
  /** Names of values of the label that the login of the principal cannot read. */
  hidden: string[];
  /** The label of now, of the case of the dataset. */
  label: Label | null;
  label_hidden: string[];
  labelled_by: string | null;
  labelled_at: string | null;
  dataset: string | null;
  merged: number | string;
  change: Change | null;
  verdict: { right?: string; reason?: string; error?: string } | null;
  digest: string;
  labels: { recorded: Label | null; candidate: Label | null };
}

/** `evaluations_compared`: parameters: first, second. */
export interface Compared extends Tested {
  first_cases: string;
  second_cases: string;
  cases: string;
  agreeing: string;
}

/** `evaluation_pairs`: one page of shared cases that differ; parameters: first, second, before (a number), limit. */
export interface PairRow {
  first_number: number;
  second_number: number;
  first_right: boolean | null;
  second_right: boolean | null;
  /** null: one has no label. */
  same_label: boolean | null;
  run_id: string | null;
  case_id: string | null;
  relation: string | null;
  key: string | null;
  title: string | null;
  first: string;
  second: string;
}

export const EVALUATION_FILTERS = ["agent", "attachment", "dataset"] as const;
export type EvaluationFilter = Partial<Record<(typeof EVALUATION_FILTERS)[number], string>>;

/** Which cases are shown, with how many there are. */
const ONLY: readonly { only: string; name: string; count: (of: Evaluation) => number }[] = [
  { only: "", name: "All", count: (of) => Number(of.cases) },
  { only: "differs", name: "Differs", count: (of) => Number(of.differing) },
  { only: "right", name: "Right", count: (of) => Number(of.are_right) },
  { only: "wrong", name: "Wrong", count: (of) => Number(of.labelled) - Number(of.are_right) },
  { only: "better", name: "Better", count: (of) => Number(of.better) },
  { only: "worse", name: "Worse", count: (of) => Number(of.worse) },
  { only: "unlabelled", name: "Without label", count: (of) => Number(of.cases) - Number(of.labelled) },
  { only: "failed", name: "Failed", count: (of) => Number(of.failing) },
];

/** Those that an evaluation can have: of questions, nothing is recorded to compare with. */
export const onlyOf = (row: Evaluation) =>
  ONLY.filter(({ only }) => row.attachment !== null || !["differs", "better", "worse"].includes(only));

export const titleOf = (row: Pick<EvaluationRow, "attachment">) => row.attachment ?? "Questions";

/** How the candidate differs from the version in use. */
export function candidateOf({
  attachment,
  shadow,
  differs,
}: Pick<EvaluationRow, "attachment" | "shadow" | "differs">): string {
  if (shadow !== null) return `version ${shadow}`;
  if (attachment === null) return "as walagent ask does";
  const parts = [
    differs.file && `all of ${differs.file}`,
    differs.model && "another model",
    differs.prompt && "another prompt",
  ];
  return parts.filter(Boolean).join(", ") || "the version in use";
}

const LOOKS = { running: "running", finished: "done", broken_off: "failed" } as const;

/** The state as a badge. */
export function stateOf({ state }: Pick<EvaluationRow, "state">): { state: string; word: string } {
  return { state: LOOKS[state], word: state === "broken_off" ? "broken off" : state };
}

/** What a case came to, in a word; better and worse where it is known of both. */
export function verdictOf(row: {
  agrees: boolean | null;
  was_right: boolean | null;
  is_right: boolean | null;
  state?: string;
}): { state: string; word: string } | { word: string } {
  if (row.is_right === true) return { state: "done", word: row.was_right === false ? "better" : "right" };
  if (row.is_right === false)
    return {
      state: "failed",
      word: row.was_right === true ? "worse" : row.was_right === false ? "both wrong" : "wrong",
    };
  if (row.state !== undefined && row.state !== "succeeded") return { state: "failed", word: "failed" };
  return { word: row.agrees === null ? "nothing recorded" : row.agrees ? "agrees" : "differs" };
}

const ALPHA = 0.05; // up to which a difference is called one

/** Which of two versions is right more often, if that is more than chance: 1 the second, -1 the first, 0 neither. */
export function sign({ better, worse, p }: Tested): -1 | 0 | 1 {
  if (p >= ALPHA) return 0;
  return Number(better) > Number(worse) ? 1 : -1;
}

/** The split and how sure it is, as `walagent replay` prints it. */
export function split({ better, worse, p }: Tested): string {
  return `${number(better)} better, ${number(worse)} worse, p = ${Number(p.toPrecision(3))}`;
}

const Z = 1.96; // of a 95 % interval

/** The 95 % interval of a share, by Wilson, in whole per cent. */
export function interval(right: number, of: number): [number, number] {
  const share = right / of;
  const middle = share + Z ** 2 / (2 * of);
  const half = Z * Math.sqrt((share * (1 - share)) / of + Z ** 2 / (4 * of ** 2));
  const percent = (value: number) => Math.round((100 * value) / (1 + Z ** 2 / of));
  return [percent(middle - half), percent(middle + half)];
}

export const seconds = (value: number | null) => (value === null ? "–" : `${value.toFixed(2)} s`);
export const dollars = (value: string | null) => (value === null ? "no price" : money(value));

/** A label in lines: values by name, tools, a text. */
export function labelLines(label: Label | null): Record<string, unknown> {
  if (!label) return {};
  return {
    ...label.values,
    ...(label.tools ? { tools: label.tools.join(", ") || "no call" } : {}),
    ...(label.result === undefined ? {} : { result: label.result }),
  };
}
