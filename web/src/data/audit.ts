/** The audit: who did what to what, and where an entry leads. */
import { linkOptions } from "@tanstack/react-router";

import type { Address } from "../parts/address";

/** `audit`: one page, newest first; parameters: `AUDIT_FILTERS`, before (a number), limit. */
export interface AuditRow {
  number: string;
  at: string;
  principal: string;
  login: string;
  /** A noun and a verb: `approval.approved`. */
  action: string;
  object: string;
  detail: Record<string, unknown>;
  digest: string;
  /** Who it is; a login has no principal. */
  kind: "user" | "agent" | "service" | "login" | "walagent";
}

/** `audit_counts`: how often who did what, of the newest 10,001 that match. */
export interface AuditCount {
  who: string;
  did: string;
  n: string;
}

/** `audit_chain`: whether the chain is as it was written. */
export interface Chain {
  tenant: string;
  rows: string;
  /** NUMBER:DIGEST of the last entry. */
  head: string | null;
  bad_row: string | null;
  reason: string | null;
}

export const AUDIT_FILTERS = ["entry", "who", "did", "object", "since", "until", "q"] as const;
export type AuditFilter = Partial<Record<(typeof AUDIT_FILTERS)[number], string>>;

/** What entries are about, as tokens of `did`. */
export const KINDS = [
  { name: "Decisions", did: "approval" },
  { name: "Runs", did: "run" },
  { name: "Agents", did: "agent,attachment,persona,workflow,model,tool,role_tool" },
  { name: "Rules", did: "policy,egress_rule,budget,channel,notification" },
  { name: "Access", did: "principal,role_grant,token,tenant" },
  { name: "Refused", did: "refused" },
] as const;

const MOST = 10_000; // entries that are counted

export function auditParams(filter: AuditFilter): Record<string, string> {
  return Object.fromEntries(AUDIT_FILTERS.map((name) => [name, filter[name] ?? ""]));
}

/** Noun and verb of an action, as a sentence has them. */
export function parts(action: string): { noun: string; verb: string } {
  const [noun = "", verb = ""] = action.split(".");
  return { noun: noun.replaceAll("_", " "), verb };
}

/** Whether a token `did` accepts an action: a noun, a verb, or both. */
export function accepts(did: string, action: string): boolean {
  const [noun = "", verb = ""] = action.split(".");
  return !did || did.split(",").some((each) => each === action || each === noun || each === verb);
}

/** How many entries match, of those that were counted. */
export function total(counts: readonly AuditCount[], did = ""): { count: number; isLeast: boolean } {
  const all = counts.reduce((sum, each) => sum + Number(each.n), 0);
  const count = counts.reduce((sum, each) => sum + (accepts(did, each.did) ? Number(each.n) : 0), 0);
  return { count: Math.min(count, MOST), isLeast: all > MOST };
}

const runPage = (run: string) => linkOptions({ to: "/runs/$run", params: { run } });
const agentPage = (agent: string) => linkOptions({ to: "/agents/$agent", params: { agent } });
const personPage = (q: string) => linkOptions({ to: "/access", search: { q } });

/** The page of what an entry was done to. */
export function objectPage({ action, object, detail }: Pick<AuditRow, "action" | "object" | "detail">): Address | null {
  const of = (name: string) => (detail[name] === undefined ? null : text(detail[name]));
  switch (action.split(".")[0]) {
    case "approval":
      return linkOptions({ to: "/approvals/$approval", params: { approval: object } });
    case "run":
      return runPage(object);
    case "agent":
      return agentPage(object);
    case "attachment":
      return agentPage(of("agent") ?? object);
    case "principal":
      return personPage(object);
    case "role_grant":
      return personPage(object.slice(0, object.lastIndexOf(" ")));
    case "token":
      return linkOptions({ to: "/access", search: { tab: "tokens", q: of("principal") ?? "" } });
    case "workflow":
      return linkOptions({ to: "/workflows/$workflow", params: { workflow: object } });
    case "budget":
      return linkOptions({ to: "/cost" });
    default:
      return null;
  }
}

/** The page that a value of the detail names. */
export function detailPage(name: string, value: unknown): Address | null {
  if (value === null || typeof value === "object") return null;
  if (name === "run") return runPage(text(value));
  if (name === "agent") return agentPage(text(value));
  return name === "principal" ? personPage(text(value)) : null;
}

/** A value of the detail as a text. */
export function text(value: unknown): string {
  if (Array.isArray(value)) return value.map(text).join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/;

/** Whether a value of the detail is a time. */
export const isInstant = (value: unknown): value is string => typeof value === "string" && INSTANT.test(value);

/** The detail on one line, with times as *time* writes them. */
export function detailLine(detail: Record<string, unknown>, time: (at: string) => string = (at) => at): string {
  return Object.entries(detail)
    .map(([name, value]) => `${name} ${isInstant(value) ? time(value) : text(value) || "none"}`)
    .join(", ");
}

/** An object as a line has it: of an ID, the beginning. */
export const short = (object: string) =>
  /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(object) ? object.slice(0, 8) : object;

/** A head that the log has named, `NUMBER:DIGEST`, as parameters of `audit_chain`. */
export function head(typed: string): { number: string; digest: string } | null {
  const found = /^(\d{1,18}):([0-9a-f]{64})$/.exec(typed.trim());
  return found?.[1] && found[2] ? { number: found[1], digest: found[2] } : null;
}
