import { expect, test } from "vitest";

import { candidateOf, interval, labelLines, sign, split, titleOf, verdictOf } from "../src/data/evaluations";

const tested = { tested: "120", first_right: "103", second_right: "113", better: "12", worse: "2", p: 0.01293945 };

test("a difference is called one only if chance would rarely make it", () => {
  expect(sign(tested)).toBe(1);
  expect(sign({ ...tested, better: "2", worse: "12" })).toBe(-1);
  expect(sign({ ...tested, better: "5", worse: "0", p: 0.0625 })).toBe(0);
  expect(split(tested)).toBe("12 better, 2 worse, p = 0.0129");
});

test("the interval of a share stays between 0 and 100", () => {
  expect([interval(103, 120), interval(113, 120)]).toEqual([
    [78, 91],
    [88, 97],
  ]);
  expect([interval(0, 3), interval(3, 3)]).toEqual([
    [0, 56],
    [44, 100],
  ]);
});

test("better and worse are said of a case only where it is known of both", () => {
  const of = (was_right: boolean | null, is_right: boolean | null, agrees: boolean | null = false) =>
    verdictOf({ agrees, was_right, is_right }).word;
  expect([of(false, true), of(true, true), of(null, true)]).toEqual(["better", "right", "right"]);
  expect([of(true, false), of(false, false), of(null, false)]).toEqual(["worse", "both wrong", "wrong"]);
  expect([of(null, null), of(null, null, true), of(null, null, null)]).toEqual([
    "differs",
    "agrees",
    "nothing recorded",
  ]);
  expect(verdictOf({ agrees: false, was_right: null, is_right: null, state: "dead" })).toEqual({
    state: "failed",
    word: "failed",
  });
});

test("a candidate is named by how it differs, and questions have no attachment", () => {
  expect(candidateOf({ attachment: "a", shadow: null, differs: {} })).toBe("the version in use");
  expect(candidateOf({ attachment: "a", shadow: null, differs: { model: "m", prompt: true } })).toBe(
    "another model, another prompt",
  );
  expect(candidateOf({ attachment: "a", shadow: 3, differs: {} })).toBe("version 3");
  expect(candidateOf({ attachment: null, shadow: null, differs: {} })).toBe("as walagent ask does");
  expect([titleOf({ attachment: "triage" }), titleOf({ attachment: null })]).toEqual(["triage", "Questions"]);
});

test("a label is shown by its values, its tools and its text", () => {
  const label = { values: { category: "bug" }, tools: [], result: "Done." };
  expect(labelLines(label)).toEqual({ category: "bug", tools: "no call", result: "Done." });
  expect(labelLines(null)).toEqual({});
});
