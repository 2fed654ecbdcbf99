import { expect, test } from "vitest";

import type { Answer, PlanStep, StepResult } from "../src/data/questions";
import { shownOf } from "../src/data/shown";

const result = (step: string, rows: string[][], type: StepResult["type"] = "SQL"): StepResult =>
  ({ step, type, rows, columns: [["n", 23]], description: step }) as unknown as StepResult;
const plan = (id: string, type: PlanStep["type"] = "SQL", ...depends_on: string[]): PlanStep => ({
  id,
  type,
  description: id,
  depends_on,
});
const answer = (steps: StepResult[], of: PlanStep[], last: string | null): Answer =>
  ({ steps, plan: of, last }) as unknown as Answer;
const names = (given: Answer) => shownOf(given).map((each) => each.step);

test("the rows of all independent steps are shown, in the order of the plan", () => {
  const steps = [result("a", [["1"]]), result("b", [["2"]]), result("c", [])];
  expect(names(answer(steps, [plan("a"), plan("b"), plan("c")], "b"))).toEqual(["a", "b", "c"]);
});

test("what an analysis was made of, and checks, are not", () => {
  const steps = [result("a", [["1"]]), result("b", [["2"]], "ANALYZE"), result("v", [["3"]], "VERIFY")];
  const of = [plan("a"), plan("b", "ANALYZE", "a"), plan("v", "VERIFY", "b")];
  expect(names(answer(steps, of, "b"))).toEqual(["b"]);
});

test("without any rows, it is the last of them", () => {
  expect(names(answer([result("a", []), result("b", [])], [plan("a"), plan("b")], "b"))).toEqual(["b"]);
  expect(names(answer([], [], null))).toEqual([]);
});
