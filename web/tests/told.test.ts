import { expect, test } from "vitest";

import { pieces } from "../src/data/told";

test("runs and times of a sentence are what they name", () => {
  expect(pieces("run 12 failed, for the insert committed 2026-11-26 09:45:50 UTC, written by run 7 (depth 1)")).toEqual(
    [
      { run: "12" },
      " failed, for the insert committed ",
      { at: "2026-11-26T09:45:50Z" },
      ", written by ",
      { run: "7" },
      " (depth 1)",
    ],
  );
  expect(pieces("no reader runs")).toEqual(["no reader runs"]);
  expect(pieces("")).toEqual([]);
});
