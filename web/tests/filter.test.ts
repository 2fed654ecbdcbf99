import fc from "fast-check";
import { expect, test } from "vitest";

import {
  joined,
  parseTokens,
  suggest,
  type Suggestion,
  type Token,
  typedText,
  unknownToken,
  wrongValue,
} from "../src/data/filter";

const KNOWN: readonly Suggestion[] = [
  { name: "state", values: ["failed", "dead", "pending"] },
  { name: "agent", values: ["triage"] },
  { name: "table" },
  { name: "since" },
];
const names = fc.constantFrom("state", "agent", "table"); // that have lists
const values = fc.stringMatching(/^[^\s,]{1,8}$/);

test("a word with a known name and a value is a token, all other words are text", () => {
  expect(parseTokens(" state:failed  refund   agent:triage 13 ", KNOWN)).toEqual({
    tokens: [
      { name: "state", value: "failed" },
      { name: "agent", value: "triage" },
    ],
    text: "refund 13",
  });
});

test.each(["state:", ":failed", "unknown:x", "failed", "STATE:failed", ":"])("%s is text", (word) => {
  expect(parseTokens(word, KNOWN)).toEqual({ tokens: [], text: word });
});

test("a value keeps what follows the first colon", () => {
  expect(parseTokens("since:2026-11-22T09:01", KNOWN).tokens).toEqual([{ name: "since", value: "2026-11-22T09:01" }]);
});

const words = fc.array(
  fc.oneof(
    values,
    values.map((value) => `"${value}"`),
    fc.tuple(names, values).map((pair) => pair.join(":")),
    fc.tuple(names, values).map((pair) => `"${pair.join(":")}"`),
  ),
);
const unquoted = (word: string) => (/^".+"$/.test(word) ? word.slice(1, -1) : word);

test("no word is lost, none appears twice, and quotes are not searched for", () => {
  fc.assert(
    fc.property(words, (typed) => {
      const { tokens, text } = parseTokens(typed.join(" "), KNOWN);
      const shown = [...tokens.map((each) => `${each.name}:${each.value}`), ...text.split(" ").filter(Boolean)];
      expect(shown.toSorted()).toEqual(typed.map(unquoted).toSorted());
    }),
  );
});

test("a text that is shown again is read as the same text", () => {
  fc.assert(
    fc.property(words, (typed) => {
      const { text } = parseTokens(typed.join(" "), KNOWN);
      const shown = typedText(text, KNOWN);
      expect(parseTokens(shown, KNOWN)).toEqual({ tokens: [], text });
      expect(unknownToken(shown, KNOWN)).toBeUndefined();
    }),
    { examples: [[['"!"']], [['"state:failed"']], [['""agent:x""']], [['"foo:bar"']]] },
  );
});

const tokens = fc.array(
  fc.record({ name: names, value: fc.array(values, { minLength: 1 }).map((all) => all.join(",")) }),
);
const pairs = (all: readonly Token[]) =>
  new Set(all.flatMap((each) => each.value.split(",").map((value) => `${each.name}:${value}`)));

test("joined tokens have each name once, and the values of both sides once", () => {
  fc.assert(
    fc.property(tokens, tokens, (old, added) => {
      const once = joined([], old);
      const found = joined(once, added);
      expect(new Set(found.map((each) => each.name)).size).toBe(found.length);
      expect(pairs(found)).toEqual(pairs([...old, ...added]));
      for (const each of found) expect(new Set(each.value.split(",")).size).toBe(each.value.split(",").length);
      expect(joined(found, added)).toEqual(found);
      expect(found.slice(0, once.length).map((each) => each.name)).toEqual(once.map((each) => each.name));
    }),
  );
});

test("a comma at the end of a list is no value", () => {
  expect(joined([], [{ name: "state", value: "failed,failed," }])).toEqual([{ name: "state", value: "failed" }]);
});

test("a value that is added to an invalid token makes a new token, without its complaint", () => {
  expect(joined([{ name: "state", value: "x", invalid: "No state" }], [{ name: "state", value: "dead" }])).toEqual([
    { name: "state", value: "x,dead" },
  ]);
});

test("a suggestion continues the last word", () => {
  expect(suggest("refund st", KNOWN)).toEqual(["state:"]);
  expect(suggest("", KNOWN)).toEqual(["state:", "agent:", "table:", "since:"]);
  expect(suggest("state:fa", KNOWN)).toEqual(["state:failed"]);
  expect(suggest("state:failed,d", KNOWN)).toEqual(["state:failed,dead"]);
  expect(suggest("since:1", KNOWN)).toEqual([]);
});

test("what is complete, or already in the list, is not suggested", () => {
  expect(suggest("state:failed", KNOWN)).toEqual([]);
  expect(suggest("state:failed,", KNOWN)).toEqual(["state:failed,dead", "state:failed,pending"]);
});

test("a token of another name is refused, with the one that is meant", () => {
  expect(unknownToken("stat:failed", KNOWN)).toEqual({ name: "stat", meant: "state" });
  expect(unknownToken("refund agnet:x", KNOWN)).toEqual({ name: "agnet" });
  expect(unknownToken("agents:triage", KNOWN)).toEqual({ name: "agents", meant: "agent" });
  expect(unknownToken("foo:bar", KNOWN)).toEqual({ name: "foo" });
  expect(unknownToken("State:failed", KNOWN)).toEqual({ name: "State", meant: "state" });
});

test.each(["state:failed", '"foo:bar"', "https://example.com", "12:30", "foo: bar", "foo"])(
  "%s is no such token",
  (text) => {
    expect(unknownToken(text, KNOWN)).toBeUndefined();
  },
);

test("quotes make a text of what looks like a token", () => {
  expect(parseTokens('"foo:bar" state:failed', KNOWN).text).toBe("foo:bar");
});

test("a filter that has no tokens takes every text", () => {
  expect(unknownToken("foo:bar", [])).toBeUndefined();
});

test.each([
  ["duration", "10s", true],
  ["duration", "<1.5 min", true],
  ["duration", "ten", false],
  ["cost", ">0.05", true],
  ["cost", "$5", false],
  ["since", "today", true],
  ["until", "today", false],
  ["since", "2026-11-24T10:00Z", true],
  ["since", "2026-11-24", true],
  ["since", "yesterday", false],
  ["ended", "7 days", true],
  ["ended", "2026-11-28T03:30:00+00:00..2026-11-28T03:31:00+00:00", true],
  ["ended", "2026-11-28T03:30:00+00:00..", true],
  ["agent", "anything", true],
])("%s:%s is right: %s", (name, value, isRight) => {
  expect(wrongValue(name, value) === undefined).toBe(isRight);
});

test("another time takes the place of the one before", () => {
  const old = [{ name: "since", value: "1h" }];
  expect(joined(old, [{ name: "since", value: "24h" }])).toEqual([{ name: "since", value: "24h" }]);
});
