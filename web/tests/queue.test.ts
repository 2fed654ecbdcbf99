import fc from "fast-check";
import { expect, test } from "vitest";

import {
  alone,
  argumentsOf,
  filterFrom,
  filterText,
  narrowed,
  sorted,
  suggestionsOf,
  sum,
  sums,
  toolsOf,
} from "../src/data/queue";
import type { ApprovalDetail, ApprovalRow } from "../src/data/approvals";

function call(
  id: number,
  tool: string,
  brief: Record<string, string>,
  more: Partial<ApprovalDetail> = {},
): ApprovalDetail {
  return {
    id: String(id),
    tool,
    agent: "triage",
    brief,
    values: Object.values(brief).join(", "),
    title: "A parcel is late",
    relation: "public.ticket",
    key: String(id),
    state: "pending",
    risk: "low",
    can_decide: true,
    is_question: false,
    expires_at: `2026-11-2${id}T10:00:00Z`,
    shown: Object.entries(brief).map(([name, text]) => ({
      name,
      text,
      kind: /^-?[\d.]+$/.test(text) ? "number" : "string",
      bound: null,
    })),
    ...more,
  } as ApprovalDetail;
}

const CALLS: readonly ApprovalRow[] = [
  call(1, "refund", { order_id: "7", amount: "12.50", reason: "late" }),
  call(2, "refund", { order_id: "8", amount: "348.00", reason: "Broken" }, { risk: "medium" }),
  call(3, "refund", { order_id: "9", amount: "9.99", reason: "late" }),
  call(4, "send", { to: "a@example.com" }, { agent: "mailer", risk: null }),
];
const found = (typed: string) => narrowed(CALLS, filterFrom(typed, CALLS)).map((each) => each.id);

test("tools are counted, the most frequent first", () => {
  expect(toolsOf(CALLS)).toEqual([
    ["refund", 3],
    ["send", 1],
  ]);
});

test.each([
  ["", ["1", "2", "3", "4"]],
  ["tool:refund", ["1", "2", "3"]],
  ["tool:refund amount:<50", ["1", "3"]],
  ["tool:refund amount:>12.49", ["1", "2"]],
  ["tool:refund amount:12.5", ["1"]],
  ["tool:refund reason:LATE", ["1", "3"]],
  ["risk:critical", ["4"]],
  ["risk:low,medium agent:triage", ["1", "2", "3"]],
  ["amount:<50", ["1", "3"]],
  ["to:example", ["4"]],
  ["parcel broken", ["2"]],
  ["nothing", []],
])("%s finds its calls", (typed, ids) => {
  expect(found(typed)).toEqual(ids);
});

test("arguments are filters: those of the tool that is chosen, else all", () => {
  const base = ["tool", "agent", "risk", "order_id", "amount", "reason"];
  expect(suggestionsOf(CALLS, undefined).map((each) => each.name)).toEqual([...base, "to"]);
  expect(suggestionsOf(CALLS, "refund").map((each) => each.name)).toEqual(base);
  expect(argumentsOf(CALLS, "send")).toEqual(["to"]);
});

test("a filter in an address is read as it was", () => {
  for (const typed of ["tool:refund amount:<50 late", "agent:triage", '"tool:x" y', ""]) {
    const filter = filterFrom(typed, CALLS);
    expect(filterFrom(filterText(filter, suggestionsOf(CALLS, "refund")), CALLS)).toEqual(filter);
  }
});

test("calls are sorted by numbers as numbers, those without one last", () => {
  expect(sorted(CALLS, "amount").map((each) => each.id)).toEqual(["3", "1", "2", "4"]);
  expect(sorted(CALLS, "-amount").map((each) => each.id)).toEqual(["2", "1", "3", "4"]);
  expect(sorted(CALLS, "-expires").map((each) => each.id)).toEqual(["4", "3", "2", "1"]);
  expect(sorted(CALLS, "")).toEqual(CALLS);
  for (const name of ["constructor", "toString", "__proto__"]) {
    expect(sorted(CALLS, name)).toEqual(CALLS);
    expect(found(`${name}:x`)).toEqual([]);
  }
});

test.each([
  [{ risk: "high" }, "its risk is high"],
  [{ risk: null }, "its tool has no risk, which counts as critical"],
  [{ can_decide: false }, "you may not decide about it"],
  [{ is_question: true }, "is a question: it needs an answer"],
  [{ state: "approved", decided_by: "ann" }, "was approved by ann meanwhile"],
  [{ shown: [{ name: "body", text: "x".repeat(5000), kind: "string", bound: null }] }, "its arguments are long"],
  [{ risk: "medium" }, undefined],
] as [Partial<ApprovalDetail>, string | undefined][])("%j is decided alone: %s", (more, why) => {
  expect(alone(call(1, "refund", { amount: "1" }, more))).toBe(why);
});

test("amounts are added exactly, keys are not", () => {
  expect(sums(CALLS.slice(0, 3) as ApprovalDetail[])).toEqual([["amount", "370.49"]]);
  expect(sums(CALLS as ApprovalDetail[])).toEqual([]);
  const euro = (id: number, amount: string, currency: string) => call(id, "refund", { amount, currency });
  const mixed = [euro(1, "1.5", "EUR"), euro(2, "10", "JPY"), euro(3, "2", "EUR")] as ApprovalDetail[];
  expect(sums(mixed)).toEqual([
    ["amount, EUR", "3.5"],
    ["amount, JPY", "10"],
  ]);
  expect(sums(mixed.slice(0, 1))).toEqual([["amount", "1.5"]]);
  expect(sum(["0.1", "0.2"])).toBe("0.3");
  expect(sum(["-0.05", "0.01"])).toBe("-0.04");
  expect(sum([])).toBe("0");
});

test("a sum of decimals is that of their cents", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -(10 ** 9), max: 10 ** 9 })), (cents) => {
      const text = (n: number) =>
        `${n < 0 ? "-" : ""}${Math.floor(Math.abs(n) / 100)}.${String(Math.abs(n) % 100).padStart(2, "0")}`;
      const total = sum(cents.map(text));
      expect(cents.length ? total : "0.00").toBe(text(cents.reduce((a, b) => a + b, 0)));
    }),
  );
});
