import fc from "fast-check";
import { expect, test } from "vitest";

import type { Step, StepContent } from "../src/data/runs";
import { callText, items, noteText, sqlValue } from "../src/pages/steps";

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
  expect(noteText({ cascade: "b", for: "a", why: "unsure: two meanings" })).toBe(
    "Asks b after a: unsure: two meanings.",
  );
  expect(noteText({ control: "none", why: "out" })).toBe("No control of the cascade: out.");
  expect(noteText({ alone: true, rows: 4, why: "no answer" })).toBe(
    "Asks alone instead of in a request for 4 rows: no answer.",
  );
  expect(noteText({})).toBe("");
});

test("calls of an unsure model and of a control are not carried out, whatever their numbers are", () => {
  const step = (seq: number, kind: Step["kind"], content: StepContent): Step => ({
    run_id: "1",
    seq,
    kind,
    content,
    input_tokens: 1,
    cached_tokens: 0,
    output_tokens: 1,
    cost: null,
    duration_ms: 1,
    recorded_at: "2026-01-01T00:00:00Z",
  });
  const call = { parts: [{ call: "0", name: "refund", arguments: {} }] };
  const found = items(
    [
      step(0, "reply", { ...call, stage: 1 }),
      step(1, "note", { cascade: "b", for: "a", why: "unsure", unsure: true }),
      step(2, "reply", { ...call, stage: 2 }),
      step(3, "result", { call_id: "0", name: "refund", content: "ok", is_error: false }),
      step(4, "reply", { ...call, control: 2 }),
    ],
    undefined,
  );
  expect(found.flatMap((each) => (each.type === "call" ? [each.state] : []))).toEqual([
    "unused",
    "committed",
    "unused",
  ]);
});
