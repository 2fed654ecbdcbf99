import { expect, test } from "vitest";

import {
  accepts,
  type AuditCount,
  detailLine,
  detailPage,
  head,
  KINDS,
  objectPage,
  parts,
  short,
  total,
} from "../src/data/audit";

test("a token accepts a noun, a verb, or both, and each of several", () => {
  for (const did of ["", "approval", "approved", "approval.approved", "run,approval"])
    expect(accepts(did, "approval.approved")).toBe(true);
  for (const did of ["app", "run", "run.approved", "approval.rejected"])
    expect(accepts(did, "approval.approved")).toBe(false);
  expect(parts("role_grant.created")).toEqual({ noun: "role grant", verb: "created" });
});

test("counts of kinds are of the entries that were counted, and say so when there are more", () => {
  const counts: AuditCount[] = [
    { who: "ann", did: "approval.approved", n: "3" },
    { who: "bob", did: "approval.refused", n: "1" },
    { who: "ann", did: "token.created", n: "2" },
  ];
  expect(total(counts)).toEqual({ count: 6, isLeast: false });
  const of = (name: string) => total(counts, KINDS.find((each) => each.name === name)?.did).count;
  expect(["Decisions", "Access", "Refused", "Runs"].map(of)).toEqual([4, 2, 1, 0]);
  expect(total([{ who: "ann", did: "run.retried", n: "10001" }])).toEqual({ count: 10_000, isLeast: true });
});

test("an entry leads to what it names", () => {
  const page = (action: string, object: string, detail = {}) => objectPage({ action, object, detail });
  expect(page("approval.approved", "7")).toMatchObject({ params: { approval: "7" } });
  expect(page("run.retried", "12")).toMatchObject({ to: "/runs/$run", params: { run: "12" } });
  expect(page("agent.changed", "triage")).toMatchObject({ params: { agent: "triage" } });
  expect(page("attachment.paused", "tickets", { agent: "triage" })).toMatchObject({ params: { agent: "triage" } });
  expect(page("role_grant.created", "ann b viewer")).toMatchObject({ to: "/access", search: { q: "ann b" } });
  expect(page("token.created", "a-b-c", { principal: "ann" })).toMatchObject({ search: { tab: "tokens", q: "ann" } });
  expect(page("request.refused", "mutation console.approve")).toBeNull();
  expect(detailPage("run", 12)).toMatchObject({ params: { run: "12" } });
  expect(detailPage("run", null)).toBeNull();
  expect(detailPage("tool", "refund")).toBeNull();
});

test("a detail is one line, also of lists and of nothing", () => {
  expect(detailLine({ run: 12, columns: ["prompt", "model"], scopes: [], login: null })).toBe(
    "run 12, columns prompt, model, scopes none, login null",
  );
});

test("times of a detail are written by the page, and IDs are cut", () => {
  const detail = { expires_at: "2026-12-05T14:43:12.030983+00:00", label: "2026" };
  expect(detailLine(detail, (at) => `at ${at.slice(0, 4)}`)).toBe("expires_at at 2026, label 2026");
  expect(short("01d060ca-8a6c-4c72-b044-9f5b468645b8")).toBe("01d060ca");
  expect(short("omar viewer")).toBe("omar viewer");
});

test("a head is a number and a digest, and nothing else", () => {
  const digest = "0a".repeat(32);
  expect(head(` 17:${digest} `)).toEqual({ number: "17", digest });
  for (const wrong of ["", "17", `17:${digest}0`, `x:${digest}`, `17:${digest.toUpperCase()}`])
    expect(head(wrong)).toBeNull();
});
