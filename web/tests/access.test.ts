import { expect, test } from "vitest";

import {
  type Change,
  found,
  isTicked,
  meaning,
  type Principal,
  sent,
  textOf,
  toggled,
  wrongName,
} from "../src/data/access";

const omar = { name: "omar", roles: { viewer: null } };

test("a box that is changed and changed back is no change", () => {
  const one = toggled([], omar, "approver");
  expect(one).toEqual([{ principal: "omar", role: "approver", granted: true }]);
  const two = toggled(one, omar, "viewer");
  expect(two[1]).toEqual({ principal: "omar", role: "viewer", granted: false });
  expect([isTicked(two, omar, "approver"), isTicked(two, omar, "viewer")]).toEqual([true, false]);
  expect(toggled(toggled(two, omar, "approver"), omar, "viewer")).toEqual([]);
  expect(isTicked([], omar, "viewer")).toBe(true);
  // The same role of another one is another box.
  expect(toggled(one, { name: "vic", roles: {} }, "approver")).toHaveLength(2);
});

test("a change is one sentence, and an array for the database", () => {
  const draft: Change[] = [
    { principal: "omar", role: "approver", granted: true },
    { principal: "vic", role: "admin", granted: false },
  ];
  expect(draft.map(meaning)).toEqual([
    "omar becomes approver: decides approvals, and retries, cancels and resolves runs",
    "vic is no longer admin",
  ]);
  expect(JSON.parse(sent(draft))).toEqual([
    ["omar", "approver", true],
    ["vic", "admin", false],
  ]);
});

test("a name that PostgreSQL would cut, or that is taken, is refused where it is typed", () => {
  expect(wrongName("omar", [{ name: "ann" }])).toBeUndefined();
  expect(wrongName("ann", [{ name: "ann" }])).toBe("Somebody has this name.");
  expect(wrongName("ä".repeat(31), [])).toBeUndefined();
  expect(wrongName("ä".repeat(32), [])).toContain("64");
  expect(wrongName("a\tb", [])).toContain("control");
});

test("people are found by all words, in any of their names and roles", () => {
  const row: Principal = {
    ...omar,
    kind: "user",
    display_name: "Omar H",
    email: "o@harbour.example",
    active: true,
    login: null,
    links_of: null,
    created_at: "2026-11-24T10:00:00Z",
    is_me: false,
    tokens: "0",
    is_last_admin: false,
  };
  expect(found([row], "HARBOUR viewer", textOf)).toEqual([row]);
  expect(found([row], "harbour approver", textOf)).toEqual([]);
});
