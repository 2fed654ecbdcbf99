import fc from "fast-check";
import { expect, test } from "vitest";

import { callText, noteText, sqlValue } from "../src/pages/steps";

test("a text is a literal of SQL: its quotes are doubled", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(sqlValue(text).slice(1, -1).replaceAll("''", "")).not.toContain("'");
      expect(sqlValue(text).slice(1, -1).replaceAll("''", "'")).toBe(text);
    }),
  );
});

test("values as SQL writes them", () => {
  expect([null, undefined, 5, true, "it's", ["it's"]].map(sqlValue)).toEqual([
    "NULL",
    "NULL",
    "5",
    "true",
    "'it''s'",
    `'["it''s"]'`,
  ]);
});

test("a call has all its arguments, or ends with a mark", () => {
  expect(callText("refund", { id: 7, note: "x" })).toBe("refund(id => 7, note => 'x')");
  expect(callText("refund", null)).toBe("refund()");
  expect(callText("refund", { note: "x".repeat(99) }, 10)).toBe("refund(not…");
});

test("a note says what happened: its text, or who retried", () => {
  expect(noteText({ text: "as was written" })).toBe("as was written");
  expect(noteText({ retry: true, by: "ann" })).toBe("Retried by ann.");
  expect(noteText({ retry: true, fresh: true })).toBe("Retried by the operator, from the beginning.");
  expect(noteText({ fallback: "b", for: "a", why: "refused" })).toBe("Asks b instead of a: refused.");
  expect(noteText({ tier: "standard", for: "flex", why: "no capacity" })).toBe(
    "Asks in tier standard instead of flex: no capacity.",
  );
  expect(noteText({})).toBe("");
});
