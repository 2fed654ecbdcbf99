import { expect, test } from "vitest";

import {
  canTakeBack,
  changeParams,
  type Correction,
  correctedValues,
  linesOf,
  outcomeOf,
  refusedLines,
  type Revert,
  revertResult,
  standing,
  tokensOf,
} from "../src/data/changes";
import type { Step } from "../src/data/runs";

const UPDATE = {
  op: "update" as const,
  columns: ["a", "b", "c"],
  before: { a: null, c: "x" },
  after: { a: "", b: "1", c: "y", id: "7" },
  omitted: ["big"],
  cut: [],
  hidden: [],
};

test("NULL, an empty text, a value that is not known and one that is not recorded are four things", () => {
  expect(linesOf(UPDATE)).toEqual([
    { column: "a", before: "null", after: { text: "", isCut: false } },
    { column: "b", before: "unknown", after: { text: "1", isCut: false } },
    { column: "c", before: { text: "x", isCut: false }, after: { text: "y", isCut: false } },
    { column: "big", before: "omitted", after: "omitted" },
  ]);
});

test("what an update changed is not known: all that is recorded is shown", () => {
  const found = linesOf({ ...UPDATE, columns: null, omitted: [] });
  expect(found.map((each) => each.column)).toEqual(["a", "b", "c", "id"]);
});

test("an insert has no values before, a deletion none after, and what counts rows none at all", () => {
  const insert = { ...UPDATE, op: "insert" as const, columns: null, before: null, omitted: [] };
  expect(linesOf(insert)[0]).toEqual({ column: "a", before: null, after: { text: "", isCut: false } });
  const deleted = { ...insert, op: "delete" as const, before: { a: "1" }, after: null };
  expect(linesOf(deleted)).toEqual([{ column: "a", before: { text: "1", isCut: false }, after: null }]);
  expect(linesOf({ ...insert, op: "more" })).toEqual([]);
  expect(linesOf({ ...insert, op: "truncate" })).toEqual([]);
});

test("hidden is not the same as not known, and a text that was cut says so", () => {
  const hidden = linesOf({ ...UPDATE, columns: ["a"], before: null, after: null, omitted: [], hidden: ["a"] });
  expect(hidden).toEqual([{ column: "a", before: "hidden", after: "hidden" }]);
  const long = "x".repeat(300);
  const [line] = linesOf({
    ...UPDATE,
    columns: ["a"],
    before: { a: "s" },
    after: { a: long },
    omitted: [],
    cut: ["a"],
  });
  expect([line?.before, line?.after]).toEqual([
    { text: "s", isCut: false },
    { text: long, isCut: true },
  ]);
});

test("a correction has what was written and what is there, and nothing is there of a deleted row", () => {
  const row = {
    kind: "changed",
    wrote: "a",
    value: null,
    omitted: false,
    is_hidden: false,
    is_cut: false,
  } as Correction;
  expect(correctedValues(row)).toEqual({ wrote: { text: "a", isCut: false }, value: "null" });
  expect(correctedValues({ ...row, kind: "deleted" }).value).toBeNull();
  expect(correctedValues({ ...row, is_hidden: true, wrote: null })).toEqual({ wrote: "hidden", value: "hidden" });
  expect(correctedValues({ ...row, omitted: true, wrote: null }).wrote).toBe("omitted");
});

test("what the database cannot read is struck through, and not sent", () => {
  const filter = { run: "17,x", table: "ticket", since: "lately" };
  expect(changeParams(filter)).toMatchObject({ run: "", relation: "ticket", since: "", key: "" });
  expect(tokensOf(filter).map((each) => [each.name, Boolean(each.invalid)])).toEqual([
    ["table", false],
    ["run", true],
    ["since", true],
  ]);
  expect(changeParams({ run: "17,18" }).run).toBe("17,18");
});

test("a revert stands while it works or is in effect; a dry run never does", () => {
  const row = { id: "9", undoes: "7", state: "failed", is_dry: false, is_in_effect: false } as Revert;
  expect(standing([row], "7")).toBeUndefined();
  expect(standing([{ ...row, state: "pending" }], "7")?.id).toBe("9");
  expect(standing([{ ...row, state: "succeeded", is_in_effect: true }], "7")?.id).toBe("9");
  expect(standing([{ ...row, state: "pending", is_dry: true }], "7")).toBeUndefined();
  expect(standing([{ ...row, state: "pending" }], "9")).toBeUndefined();
});

test("an ended run is taken back once; a dry run and what no agent did never", () => {
  const run = { id: "7", kind: "agent", state: "succeeded" };
  const revert = { id: "9", undoes: "7", state: "succeeded", is_dry: false, is_in_effect: true } as Revert;
  expect(canTakeBack(run, [])).toBe(true);
  expect(canTakeBack({ ...run, state: "running" }, [])).toBe(false);
  expect(canTakeBack({ ...run, kind: "question" }, [])).toBe(false);
  expect(canTakeBack(run, [revert])).toBe(false);
  expect(canTakeBack({ ...run, id: "9", kind: "revert" }, [revert])).toBe(true);
  expect(canTakeBack({ ...run, id: "9", kind: "revert" }, [{ ...revert, is_dry: true }])).toBe(false);
});

test("what a refused run did to its other rows was rolled back", () => {
  const result = { done: false, steps: [] };
  const step = (content: object) => ({ kind: "result", content }) as unknown as Step;
  expect(revertResult([step({ content: "ok" })])).toBeUndefined();
  expect(revertResult([step({ revert: result, is_error: true })])?.isKept).toBe(false);
  expect(revertResult([step({ revert: { ...result, dry_run: true }, is_error: false })])?.isKept).toBe(false);
  expect(
    revertResult([step({ revert: result, is_error: true }), step({ revert: result, is_error: false })])?.isKept,
  ).toBe(true);
  const row = { op: "update", table: "t", key: { id: "7" }, outcome: "restored" as const };
  expect([outcomeOf(row, true).word, outcomeOf(row, false).word]).toEqual(["restored", "would be restored"]);
  expect(outcomeOf({ ...row, outcome: "refused" }, false).state).toBe("failed");
  expect(refusedLines({ ...row, columns: { status: ["closed", null] } }).lines).toEqual([
    { column: "status", before: { text: "closed", isCut: false }, after: "null" },
  ]);
});
