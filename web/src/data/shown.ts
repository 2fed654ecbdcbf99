import type { Answer, StepResult } from "./questions";

/** The results that the answer rests on: all that no analysis was made of, in the order of the plan. */
export function shownOf(answer: Answer): StepResult[] {
  const used = new Set(answer.plan.flatMap((step) => (step.type === "ANALYZE" ? step.depends_on : [])));
  const shown = answer.steps.filter(
    (each) => !used.has(each.step) && each.columns.length > 0 && each.type !== "VERIFY",
  );
  return shown.some((each) => each.rows.length > 0) ? shown : answer.steps.filter((each) => each.step === answer.last);
}
