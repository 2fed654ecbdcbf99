import { expect, test } from "vitest";

import { isTextSearch, type Reach, searchOlder } from "../src/data/older";

const from: Reach = { oldest: "990001", since: null, is_partial: true };

/** Runs from 1 on; each step reads 100,000 of them. */
function older(matches: (before: number, oldest: number) => number, stopAfter = Infinity) {
  const steps: [string, boolean, number][] = [];
  return {
    steps,
    further: {
      reach: (before: string) => {
        const oldest = Math.max(Number(before) - 100_000, 1);
        return Promise.resolve({ oldest: String(oldest), since: null, is_partial: oldest > 1 });
      },
      count: (before: string, oldest: string) => Promise.resolve(matches(Number(before), Number(oldest))),
      shown: (reach: Reach, found: number) => void steps.push([reach.oldest, reach.is_partial, found]),
      isStopped: () => steps.length >= stopAfter,
    },
  };
}

test("a search that finds nothing ends at the first run, and says so", async () => {
  const { steps, further } = older(() => 0);
  await searchOlder(from, further);
  expect(steps.length).toBe(10);
  expect(steps.at(-1)).toEqual(["1", false, 0]);
});

test("a search ends where enough is found, and whatever it has not read is partial", async () => {
  const { steps, further } = older((before) => (before < 800_000 ? 60 : 3));
  await searchOlder(from, further);
  expect(steps).toEqual([
    ["890001", true, 3],
    ["790001", true, 6],
    ["690001", true, 66],
  ]);
});

test("a search that is stopped asks no more", async () => {
  const { steps, further } = older(() => 0, 2);
  await searchOlder(from, further);
  expect(steps.length).toBe(2);
});

test("only text is searched partially: keys and numbers of runs have indexes", () => {
  expect(isTextSearch({ q: "outage" })).toBe(true);
  expect(isTextSearch({ q: "4711" })).toBe(false);
  expect(isTextSearch({ state: "failed" })).toBe(false);
});
