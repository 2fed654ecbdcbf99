import fc from "fast-check";
import { expect, test } from "vitest";

import {
  type Budget,
  consequence,
  draftOf,
  isChanged,
  left,
  limitOf,
  raised,
  statement,
  wrongDraft,
} from "../src/data/budgets";

const ROW: Budget = {
  name: "it's all",
  applies_to: "",
  period: "month",
  on_exceeded: "wait",
  max_cost: "200",
  spent_cost: "199.5",
  reserved_cost: "0.5",
  max_tokens: null,
  spent_tokens: "9000000",
  reserved_tokens: "0",
  waiting: "7",
  resets_at: "2026-12-01T00:00:00Z",
  version: 3,
  of_file: false,
  refusal: null,
};
const draft = { ...draftOf(ROW), max_cost: "300" };

test("a draft is a change only if it differs", () => {
  expect(isChanged(ROW, draftOf(ROW))).toBe(false);
  expect(isChanged(ROW, { ...draftOf(ROW), max_cost: " 200 " })).toBe(false);
  for (const change of [
    { max_cost: "300" },
    { max_tokens: "5" },
    { period: "day" as const },
    { on_exceeded: "fail" as const },
  ])
    expect(isChanged(ROW, { ...draftOf(ROW), ...change })).toBe(true);
});

test("limits that the database refuses are refused where they are typed", () => {
  for (const max_cost of ["0", "-1", "1e9", "NaN", "Infinity", "1,000", "0.000"])
    expect(wrongDraft({ ...draft, max_cost })).toContain("Dollars");
  for (const max_tokens of ["0", "1.5", "-3", "x"]) expect(wrongDraft({ ...draft, max_tokens })).toContain("Tokens");
  expect(wrongDraft({ ...draft, max_cost: "" })).toContain("a limit");
  expect(wrongDraft(draft)).toBeUndefined();
  expect(wrongDraft({ ...draft, max_cost: "", max_tokens: "5000000" })).toBeUndefined();
});

test("what goes on at once is said before it is saved", () => {
  expect(left(ROW, draft)).toEqual({ isSpent: false, text: "$100.00 of $300.00 left" });
  expect(consequence(ROW, draft)).toBe("The 7 runs that wait for it are tried again at once.");
  expect(consequence({ ...ROW, waiting: "0" }, draft)).toBe("No run waits for it.");
  expect(consequence(ROW, draftOf(ROW))).toContain("runs wait at their next call");
  expect(consequence(ROW, { ...draftOf(ROW), on_exceeded: "fail" })).toContain("runs fail");
  expect(consequence(ROW, { ...draftOf(ROW), on_exceeded: "warn" })).toContain("No call is refused");
});

test("a budget is raised by half, to a number of two digits", () => {
  expect(["200", "5", "0.5", "33", "1000000", "x"].map(raised)).toEqual(["300", "7.5", "0.75", "50", "1500000", "x"]);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1_000_000_000 }), (limit) => {
      const next = Number(raised(String(limit)));
      expect(next).toBeGreaterThanOrEqual(limit * 1.5 * (1 - 1e-9));
      expect(next).toBeLessThanOrEqual(limit * 1.5 * 1.1);
      expect(wrongDraft({ ...draft, max_cost: raised(String(limit)) })).toBeUndefined();
    }),
  );
});

test("names are quoted in the statement, and limits named with their window", () => {
  expect(statement(ROW)).toBe("update agent.budget set max_cost = 200 where name = 'it''s all';");
  expect(limitOf(ROW)).toBe("$200.00 a month");
  expect(limitOf({ max_cost: null, max_tokens: "5000000", period: "total" })).toBe("5,000,000 tokens in total");
});
