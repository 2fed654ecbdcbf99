/** The queue of calls that wait: which of them are shown, in which order, and what many have in common. */
import { parseTokens, type Suggestion, type Token, typedText } from "./filter";
import type { ApprovalDetail, ApprovalRow } from "./approvals";

/** Characters of the arguments above which a call is decided alone. */
const LARGE = 4096;
/** Calls that are decided together at most. */
export const MOST = 100;

export interface Filter {
  tokens: readonly Token[];
  text: string;
}

/** Tools of the calls, with their counts, the most frequent first. */
export function toolsOf(rows: readonly ApprovalRow[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const { tool } of rows) counts.set(tool, (counts.get(tool) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

/** What the filter knows: tool, agent and risk, and arguments: of the tool that is chosen, else of all. */
export function suggestionsOf(rows: readonly ApprovalRow[], tool: string | undefined): Suggestion[] {
  const values = (of: (row: ApprovalRow) => string) => [...new Set(rows.map(of))].sort();
  const known: Suggestion[] = [
    { name: "tool", values: toolsOf(rows).map(([name]) => name) },
    { name: "agent", values: values((row) => row.agent ?? "") },
    { name: "risk", values: values((row) => row.risk ?? "critical") },
  ];
  const names = new Set(known.map((each) => each.name));
  return [...known, ...argumentsOf(rows, tool).flatMap((name) => (names.has(name) ? [] : [{ name }]))];
}

/** Names of the arguments of calls to *tool*, else of all, in the order in which they come. */
export function argumentsOf(rows: readonly ApprovalRow[], tool: string | undefined): string[] {
  const of = rows.filter((row) => tool === undefined || row.tool === tool);
  return [...new Set(of.flatMap((row) => Object.keys(row.brief)))];
}

/** The filter that an address holds, as it is typed: `tool:refund amount:<50 late`. */
export function filterFrom(typed: string, rows: readonly ApprovalRow[]): Filter {
  const { tokens } = parseTokens(typed, [{ name: "tool" }]);
  return parseTokens(typed, suggestionsOf(rows, tokens[0]?.value));
}

export function filterText({ tokens, text }: Filter, known: readonly Suggestion[]): string {
  return [...tokens.map((each) => `${each.name}:${each.value}`), typedText(text, known)].join(" ").trim();
}

/** The calls that match: each token, and each word somewhere in the call. */
export function narrowed(rows: readonly ApprovalRow[], { tokens, text }: Filter): ApprovalRow[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => {
    const said = [row.tool, row.agent, row.values, row.title, row.relation, row.key].join(" ").toLowerCase();
    return tokens.every((token) => matches(row, token)) && words.every((word) => said.includes(word));
  });
}

function matches(row: ApprovalRow, { name, value }: Token): boolean {
  if (name === "tool") return value.split(",").includes(row.tool);
  if (name === "agent") return value.split(",").includes(row.agent ?? "");
  if (name === "risk") return value.split(",").includes(row.risk ?? "critical");
  const given = argument(row, name);
  if (given === undefined) return false;
  const [, sign, bound] = /^([<>])(.+)$/.exec(value) ?? [];
  if (sign && bound)
    return isNumber(given) && (sign === "<" ? Number(given) < Number(bound) : Number(given) > Number(bound));
  return value
    .split(",")
    .some((each) =>
      isNumber(each) && isNumber(given)
        ? Number(each) === Number(given)
        : given.toLowerCase().includes(each.toLowerCase()),
    );
}

/** An argument of a call.  Its name comes from an address: an object has `constructor`, too. */
const argument = (row: ApprovalRow, name: string) => (Object.hasOwn(row.brief, name) ? row.brief[name] : undefined);

const isNumber = (text: string) => /^-?\d+(\.\d+)?$/.test(text);

/** In the order of: nothing, as they were asked; `expires`; or an argument, a minus before it for the greatest first. */
export function sorted(rows: readonly ApprovalRow[], by: string): ApprovalRow[] {
  const turned = by.startsWith("-") ? -1 : 1;
  const name = by.replace(/^-/, "");
  const key = (row: ApprovalRow) => (name === "expires" ? row.expires_at : argument(row, name));
  if (!name) return [...rows];
  return [...rows].sort((a, b) => {
    const [one, other] = [key(a), key(b)];
    if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined);
    return turned * (isNumber(one) && isNumber(other) ? Number(one) - Number(other) : one.localeCompare(other));
  });
}

/** Why a call is not part of a decision about many; undefined: it is. */
export function alone(row: ApprovalDetail): string | undefined {
  if (row.state !== "pending") return `was ${row.state}${row.decided_by ? ` by ${row.decided_by}` : ""} meanwhile`;
  if (row.is_question) return "is a question: it needs an answer";
  if (!row.can_decide) return "you may not decide about it";
  if (row.risk === null) return "its tool has no risk, which counts as critical";
  if (row.risk === "high" || row.risk === "critical") return `its risk is ${row.risk}`;
  if (row.shown.reduce((sum, each) => sum + each.text.length, 0) > LARGE) return "its arguments are long";
  return undefined;
}

/**
 * Sums of the arguments that are numbers in each of the calls, exactly; of numbers of things, not of keys.  Amounts of
 * several currencies or units have a sum each.
 */
export function sums(rows: readonly ApprovalDetail[]): [string, string][] {
  const units = (rows[0]?.shown ?? []).map((each) => each.name).filter((name) => /(^|_)(currency|unit)$/i.test(name));
  const groups = new Map<string, ApprovalDetail[]>();
  for (const row of rows) {
    const unit = row.shown.flatMap((each) => (units.includes(each.name) ? [each.text] : [])).join(" ");
    groups.set(unit, [...(groups.get(unit) ?? []), row]);
  }
  return [...groups].flatMap(([unit, of]) =>
    sumsOf(of).map(([name, total]): [string, string] => [unit && groups.size > 1 ? `${name}, ${unit}` : name, total]),
  );
}

function sumsOf(rows: readonly ApprovalDetail[]): [string, string][] {
  const names = rows[0]?.shown ?? [];
  return names.flatMap(({ name }) => {
    const given = rows.map((row) => row.shown.find((each) => each.name === name));
    const isAmount =
      given.every((each) => each?.kind === "number" && isNumber(each.text)) &&
      !/(^|_)(id|key|no|number|year)$/i.test(name);
    return isAmount ? [[name, sum(given.map((each) => each?.text ?? "0"))] as [string, string]] : [];
  });
}

/** The sum of decimal numbers: as a number of JavaScript, 0.1 and 0.2 would be 0.30000000000000004. */
export function sum(numbers: readonly string[]): string {
  const places = Math.max(0, ...numbers.map((each) => (each.split(".")[1] ?? "").length));
  const total = numbers
    .map((each) => {
      const [whole = "0", part = ""] = each.split(".");
      return BigInt(whole + part.padEnd(places, "0"));
    })
    .reduce((a, b) => a + b, 0n);
  if (places === 0) return String(total);
  const digits = String(total < 0n ? -total : total).padStart(places + 1, "0");
  return `${total < 0n ? "-" : ""}${digits.slice(0, -places)}.${digits.slice(-places)}`;
}
