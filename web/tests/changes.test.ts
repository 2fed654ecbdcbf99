import { expect, test } from "vitest";

import {
  changeParams,
  type Correction,
  correctedValues,
  linesOf,
  type Revert,
  shareKept,
  standing,
  tokensOf,
} from "../src/data/changes";

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

test("the share that was kept is of what was written", () => {
  expect(shareKept({ written: "0", corrected: "0" })).toBeNull();
  expect(shareKept({ written: "40", corrected: "2" })).toBe("95.0 %");
});
