import fc from "fast-check";
import { expect, test } from "vitest";

import { Exact, parsed, textOf } from "../src/data/exact";

test("an answer of the server without large integers is what JSON says", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(parsed(JSON.stringify(value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test("a value as text: none is empty, a text is itself, a structure is JSON", () => {
  expect([null, undefined, "", "a", 0, false, [1], { a: null }].map(textOf)).toEqual([
    "",
    "",
    "",
    "a",
    "0",
    "false",
    "[1]",
    '{"a":null}',
  ]);
  expect(textOf(new Exact("348.00"))).toBe("348.00");
});
