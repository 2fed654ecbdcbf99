/** Questions: their answers, those of before, and what is done while one is answered. */
import { useMemo } from "react";

import { useShape } from "./shapes";

export interface PlanStep {
  id: string;
  type: "SQL" | "ANALYZE" | "SEARCH" | "VERIFY";
  description: string;
  depends_on: string[];
}

export interface StepResult {
  step: string;
  type: PlanStep["type"];
  description: string;
  columns: [string, number][];
  rows: (string | null)[][];
  cut: string[];
  query: string;
  error: string;
  findings: string[];
}

export interface Answer {
  status: "answered" | "clarify" | "refused" | "error";
  question: string;
  answer: string;
  sql: string[];
  assumptions: string[];
  caveats: string[];
  sources: string[];
  reasoning: string;
  steps: StepResult[];
  plan: PlanStep[];
  last: string | null;
  role: string;
  session: string;
  run: number;
  tokens: number;
  cost: number | null;
}

/** `questions`: the latest of the caller. */
export interface QuestionRow {
  id: string;
  session: string;
  run_id: string | null;
  asked_at: string;
  text: string;
  /** Of the answer; null: there is none. */
  status: Answer["status"] | null;
  answer: string | null;
  /** Of the run; null: it was removed. */
  state: string | null;
  reason: string | null;
}

/** `question`: one of them, with what its run has kept. */
export interface Question extends Omit<QuestionRow, "answer" | "status"> {
  answer: Pick<Answer, "status" | "answer" | "sql" | "assumptions" | "caveats"> | null;
  tokens: string | null;
  cost: string | null;
  plan: (Omit<PlanStep, "depends_on"> & { depends_on?: string[] })[];
  results: Omit<StepResult, "description">[];
}

interface Done {
  run_id: string;
  seq: number;
  kind: "reply" | "result";
  by: string | null;
  step: string | null;
  rows: number | null;
  error: string | null;
  plan: Question["plan"] | null;
}

export const useQuestions = () => {
  const live = useShape<QuestionRow>("questions", (row) => row.id);
  return { ...live, rows: useMemo(() => [...live.rows].sort((a, b) => Number(b.id) - Number(a.id)), [live.rows]) };
};

/** The plan of the question that is answered in a session, and the results so far. */
export function useProgress(session: string): {
  plan: readonly PlanStep[];
  results: readonly Done[];
  isPlanned: boolean;
} {
  const { rows } = useShape<Done>("question_steps", (row) => `${row.run_id}/${row.seq}`, { session });
  const steps = [...rows].sort((a, b) => a.seq - b.seq);
  const planned = steps.filter((each) => each.plan !== null).at(-1);
  return {
    plan: (planned?.plan ?? []).map(complete),
    results: steps.filter((each) => each.kind === "result"),
    isPlanned: planned !== undefined,
  };
}

const complete = (step: Question["plan"][number]): PlanStep => ({ ...step, depends_on: step.depends_on ?? [] });

/** An answer of before, as the server gave it then. */
export function answerOf(question: Question): Answer {
  const plan = question.plan.map(complete);
  const results = new Map(question.results.map((each) => [each.step, each])); // of the last attempt of each step
  const steps = plan.flatMap((step) => {
    const found = results.get(step.id);
    return found ? [{ ...found, description: step.description }] : [];
  });
  const shown = steps.filter((each) => each.columns.length > 0 && each.type !== "VERIFY");
  const last = shown.filter((each) => each.rows.length > 0).at(-1) ?? shown.at(-1);
  return {
    sources: [],
    reasoning: "",
    role: "",
    status: "error",
    answer: "",
    sql: [],
    assumptions: [],
    caveats: [],
    ...question.answer,
    question: question.text,
    steps,
    plan,
    last: last?.step ?? null,
    session: question.session,
    run: Number(question.run_id ?? 0),
    tokens: Number(question.tokens ?? 0),
    cost: question.cost === null ? null : Number(question.cost),
  };
}

const NUMBERS = new Set([20, 21, 23, 700, 701, 790, 1700]); // types: int8, int2, int4, float4, float8, money, numeric
/** Whether values of the type with this OID are numbers. */
export const isNumber = (type: number | undefined): boolean => type !== undefined && NUMBERS.has(type);
