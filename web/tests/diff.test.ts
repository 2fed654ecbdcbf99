import fc from "fast-check";
import { expect, test } from "vitest";

import { diff, type DiffLine } from "../src/data/diff";

const words = fc
  .array(fc.constantFrom("a", "b", "the", "row", " ", "  "), { maxLength: 6 })
  .map((all) => all.join(" "));
// Few different lines, so that many are equal.
const texts = fc.array(fc.oneof(fc.constantFrom("a", "b", ""), words), { maxLength: 8 }).map((all) => all.join("\n"));
/** A text, and the same with some lines replaced by others. */
const edited = fc.tuple(texts, fc.nat(8), fc.nat(3), texts).map(([text, at, cut, added]): [string, string] => {
  const all = text.split("\n");
  return [text, [...all.slice(0, at), ...added.split("\n"), ...all.slice(at + cut)].join("\n")];
});
const pairs = fc
  .oneof(fc.tuple(texts, texts), edited)
  .chain(([a, b]) => fc.constantFrom([a, b] as const, [b, a] as const));
const lines = (text: string) => (text ? text.split("\n") : []);
const textOf = (line: DiffLine) => line.parts.map((part) => part.text).join("");
const side = (found: readonly DiffLine[], gone: DiffLine["kind"]) =>
  found.filter((line) => line.kind !== gone).map(textOf);

test("without what was added it is the old text, without what was removed the new one", () => {
  fc.assert(
    fc.property(pairs, ([before, after]) => {
      const found = diff(before, after);
      expect(side(found, "add")).toEqual(lines(before));
      expect(side(found, "del")).toEqual(lines(after));
    }),
  );
});

test("numbers count the lines of their text", () => {
  fc.assert(
    fc.property(pairs, ([before, after]) => {
      const found = diff(before, after);
      const numbers = (...kinds: DiffLine["kind"][]) =>
        found.filter((line) => kinds.includes(line.kind)).map((line) => line.number);
      expect(numbers("same", "add")).toEqual(lines(after).map((_, i) => i + 1));
      expect(numbers("del")).toEqual(numbers("del").toSorted((a, b) => a - b));
      for (const line of found) if (line.kind === "del") expect(textOf(line)).toBe(lines(before)[line.number - 1]);
    }),
  );
});

test("a text and itself have no difference", () => {
  fc.assert(fc.property(texts, (text) => diff(text, text).every((line) => line.kind === "same")));
});

test("as many lines are kept as in the other direction", () => {
  const kept = (a: string, b: string) => diff(a, b).filter((line) => line.kind === "same").length;
  fc.assert(fc.property(pairs, ([a, b]) => kept(a, b) === kept(b, a)));
});

test("in a changed line only the words that changed are marked", () => {
  const [del, add] = diff("pay the old invoice", "pay the new invoice");
  expect(del?.parts.filter((part) => part.isMarked)).toEqual([{ text: "old", isMarked: true }]);
  expect(add?.parts.filter((part) => part.isMarked)).toEqual([{ text: "new", isMarked: true }]);
  expect(del?.parts.length).toBe(3);
});

test("an empty text has no line", () => {
  expect(diff("", "")).toEqual([]);
  expect(diff("", "a").map((line) => line.kind)).toEqual(["add"]);
  expect(diff("a\nb", "").map((line) => line.kind)).toEqual(["del", "del"]);
});

test("texts that are too long to compare are replaced, but for their common begin and end", () => {
  const many = (word: string) => Array.from({ length: 1_100 }, (_, i) => `${word}${i}`);
  const found = diff(["first", ...many("a"), "last"].join("\n"), ["first", ...many("b"), "last"].join("\n"));
  expect(found.filter((line) => line.kind === "same").map(textOf)).toEqual(["first", "last"]);
  expect(found.filter((line) => line.kind === "del")).toHaveLength(1_100);
});
