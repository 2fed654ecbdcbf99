import fc from "fast-check";
import { expect, test } from "vitest";

import { Exact, parsed, textOf, indented } from "../src/data/exact";

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

test("indented JSON says the same, with its numbers as they are", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(JSON.parse(indented(JSON.stringify(value)))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
  expect(indented('{"a": [9007199254740993, 1.50], "b": {}, "c": "x, {y}: \\" z"}')).toBe(
    '{\n  "a": [\n    9007199254740993,\n    1.50\n  ],\n  "b": {},\n  "c": "x, {y}: \\" z"\n}',
  );
});
