import { expect, test } from "vitest";

import { chosen, type GapChoice } from "../src/data/gaps";

test("each choice says what became of the rows", () => {
  const none: GapChoice = { attachment: "triage", choice: "skip", column: null, rows: null, runs: null, undated: null };
  expect(chosen(none)).toBe("triage: skipped, no runs");
  expect(chosen({ ...none, choice: "all" })).toBe("triage: a run for every row");
  expect(chosen({ ...none, choice: "turns" })).toBe("triage: turns where it had not answered");
  const since: GapChoice = { ...none, choice: "since", column: "updated_at", rows: 1200, runs: 7, undated: 0 };
  expect(chosen(since)).toBe("triage: 7 runs of 1,200 rows by updated_at");
  expect(chosen({ ...since, undated: 3 })).toBe(
    "triage: 7 runs of 1,200 rows by updated_at, 3 without a time in updated_at",
  );
});
