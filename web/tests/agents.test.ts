import { expect, test } from "vitest";

import { accuracyOf } from "../src/data/agents";

test.each([
  ["1", "0", "100 %"],
  ["1000", "1", "99.9 %"],
  ["100000", "1", "99.9 %"],
  ["3", "1", "66.6 %"],
  ["8", "8", "0 %"],
])("of %s values, %s wrong: %s", (written, wrong, shown) => {
  expect(accuracyOf({ written, wrong })).toBe(shown);
});
