/** Budgets: what they allow, and what a change of one does at once. */
import { money, number } from "./format";

export type Period = "day" | "month" | "total";
export type OnExceeded = "wait" | "fail" | "warn";

/** `budgets`: all, with what is spent and reserved. */
export interface Budget {
  name: string;
  applies_to: string;
  period: Period;
  on_exceeded: OnExceeded;
  max_cost: string | null;
  spent_cost: string | null;
  reserved_cost: string | null;
  max_tokens: string | null;
  spent_tokens: string | null;
  reserved_tokens: string | null;
  waiting: string;
  resets_at: string | null;
  version: number;
  /** Whether agents.yaml has it: applying the file sets it back. */
  of_file: boolean;
  /** Why the one who is signed in may not change it; null: it may. */
  refusal: "role" | "login" | "privilege" | null;
}

export const PERIODS: Readonly<Record<Period, string>> = { day: "a day", month: "a month", total: "in total" };
export const EXCEEDED: Readonly<Record<OnExceeded, string>> = {
  wait: "runs wait until it resets",
  fail: "runs fail",
  warn: "calls go on, and are counted",
};

/** `budget_options`: one row; what a new budget can apply to. */
export interface BudgetOptions {
  /** Why the one who is signed in may make and remove none; null: it may. */
  refusal: Budget["refusal"];
  agents: readonly string[];
  attachments: readonly string[];
  models: readonly string[];
  /** Logins that ask questions. */
  askers: readonly string[];
}

/** What a budget can apply to. */
export const APPLIES = {
  all: "all runs and questions",
  agent: "the runs of an agent",
  attachment: "the runs of an attachment",
  model: "the calls of a model",
  asker: "the questions of a login",
} as const;
export type Applies = keyof typeof APPLIES;

/** A change as it is typed. */
export interface BudgetDraft {
  max_cost: string;
  max_tokens: string;
  period: Period;
  on_exceeded: OnExceeded;
}

export const draftOf = (row: Budget): BudgetDraft => ({
  max_cost: row.max_cost ?? "",
  max_tokens: row.max_tokens ?? "",
  period: row.period,
  on_exceeded: row.on_exceeded,
});

/** What is wrong with a draft; undefined: nothing. */
export function wrongDraft(draft: BudgetDraft): string | undefined {
  if (!draft.max_cost && !draft.max_tokens) return "A budget has a limit in dollars, in tokens, or both.";
  if (draft.max_cost && !(/^\d{1,12}(\.\d{1,8})?$/.test(draft.max_cost) && Number(draft.max_cost) > 0))
    return "Dollars are a number above 0, such as 300 or 0.5.";
  if (draft.max_tokens && !(/^\d{1,18}$/.test(draft.max_tokens) && Number(draft.max_tokens) > 0))
    return "Tokens are a whole number above 0.";
  return undefined;
}

export function isChanged(row: Budget, draft: BudgetDraft): boolean {
  const now = draftOf(row);
  return (Object.keys(now) as (keyof BudgetDraft)[]).some((name) => now[name] !== draft[name].trim());
}

/** The limit half as high again, or a round number above: what one raises to. */
export function raised(limit: string): string {
  const n = Number(limit) * 1.5;
  if (!(n > 0)) return limit;
  const step = 10 ** (Math.floor(Math.log10(n)) - 1);
  return String(Number((Math.ceil(n / step - 1e-9) * step).toPrecision(12)));
}

const limitText = (cost: string | null, tokens: string | null) =>
  [cost && money(cost), tokens && `${number(tokens)} tokens`].filter(Boolean).join(" and ");

/** What is left under the draft, of the scarcer limit: below 0 of it nothing is. */
export function left(row: Budget, draft: BudgetDraft): { isSpent: boolean; text: string } {
  const isSame = draft.period === row.period;
  const parts = [
    [draft.max_cost, row.spent_cost, row.reserved_cost, money] as const,
    [draft.max_tokens, row.spent_tokens, row.reserved_tokens, number] as const,
  ].flatMap(([limit, spent, reserved, shown]) => {
    if (!limit) return [];
    const used = isSame ? Number(spent ?? 0) + Number(reserved ?? 0) : 0;
    return [
      { rest: Number(limit) - used, text: `${shown(String(Math.max(0, Number(limit) - used)))} of ${shown(limit)}` },
    ];
  });
  return {
    isSpent: parts.some((each) => each.rest <= 0),
    text: `${parts.map((each) => each.text).join(" and ")} left${draft.max_tokens && !draft.max_cost ? " (tokens)" : ""}`,
  };
}

/** What happens at once when the draft is saved. */
export function consequence(row: Budget, draft: BudgetDraft): string {
  const waiting = Number(row.waiting);
  const what = waiting === 1 ? "The run that waits for it is" : `The ${number(waiting)} runs that wait for it are`;
  const { isSpent } = left(row, draft);
  if (draft.on_exceeded === "warn")
    return waiting ? `${what} tried again at once. No call is refused.` : "No call is refused.";
  if (isSpent)
    return draft.on_exceeded === "fail"
      ? "It is exhausted with this limit: runs fail at their next call."
      : "It is exhausted with this limit: runs wait at their next call.";
  return waiting ? `${what} tried again at once.` : "No run waits for it.";
}

/** The statement that does the same. */
export function statement(row: Budget): string {
  const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;
  return `update agent.budget set max_cost = ${row.max_cost ?? "null"} where name = ${literal(row.name)};`;
}

/** A limit as a sentence has it: `$200.00 a month`. */
export const limitOf = (row: Pick<Budget, "max_cost" | "max_tokens" | "period">) =>
  `${limitText(row.max_cost, row.max_tokens)} ${PERIODS[row.period]}`;
