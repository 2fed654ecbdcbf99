import { expect, test } from "vitest";

import { canFork, forkText, stepOfCall } from "../src/data/forks";
import type { Step } from "../src/data/runs";
import { noteText } from "../src/pages/steps";

test("a run of an agent that has ended can be forked", () => {
  expect(canFork({ kind: "agent", state: "failed" })).toBe(true);
  expect(canFork({ kind: "agent", state: "running" })).toBe(false);
  expect(canFork({ kind: "agent", state: "skipped" })).toBe(false);
  expect(canFork({ kind: "turn", state: "succeeded" })).toBe(false);
});

test("a call is named by the first of its steps that is there", () => {
  const step = (seq: number) => ({ seq }) as Step;
  expect(stepOfCall(undefined, step(4), step(3))).toBe(4);
  expect(stepOfCall(undefined, undefined)).toBeUndefined();
});

test("a note says where a run goes on from, and with what", () => {
  const fork = { run: 7, step: 2 };
  expect(forkText({})).toBe("");
  expect(noteText({ fork, by: "ann" })).toBe("Goes on from step 2 of run 7, asked for by ann.");
  expect(noteText({ fork, prompt: "Be careful.", arguments: {} })).toBe(
    "Goes on from step 2 of run 7, with the prompt: Be careful., with other arguments of the call.",
  );
});
