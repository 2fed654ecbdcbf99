import { expect, test } from "vitest";

import { bars, byState, type Part } from "../src/data/histogram";

const part = (minute: number, state: Part["state"], runs: number): Part => ({
  at: new Date(Date.UTC(2026, 10, 24, 10, minute)).toISOString(),
  until: new Date(Date.UTC(2026, 10, 24, 10, minute + 1)).toISOString(),
  state,
  runs,
  is_least: false,
});
const PARTS = [part(0, "succeeded", 3), part(0, "failed", 1), part(2, "dead", 2), part(47, "succeeded", 4)];

test("states are counted, the most frequent first", () => {
  expect(byState(PARTS)).toEqual([
    ["succeeded", 7],
    ["dead", 2],
    ["failed", 1],
  ]);
});

test("each part of the time has a bar, also without a run", () => {
  const found = bars(PARTS, []);
  expect(found.map((each) => each.other).join("")).toBe(`3${"0".repeat(46)}4`);
  expect(found.map((each) => each.failed).join("")).toBe(`102${"0".repeat(45)}`);
  expect(found[1]?.at).toBe(found[0]?.until);
});

test("bars are of the chosen states", () => {
  expect(bars(PARTS, ["failed"]).reduce((sum, each) => sum + each.failed + each.other, 0)).toBe(1);
});

test("runs of one instant have no time to draw", () => {
  expect(bars([{ ...part(0, "failed", 1), until: part(0, "failed", 1).at }], [])).toEqual([]);
  expect(bars([], [])).toEqual([]);
});
