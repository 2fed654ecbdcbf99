/** Rows that runs changed, what others changed of them, and runs that take runs back. */
import { type Suggestion, type Token, wrongValue } from "./filter";
import type { Step } from "./runs";

/** `changes`: one page, newest first; parameters: `changeParams`, before (a place), limit. */
export interface RowChanged {
  run_id: string;
  commit_lsn: string;
  ordinal: number;
  /** Where it is in the list: `before` of the next page. */
  place: string;
  step: number | null;
  tool: string | null;
  agent: string | null;
  version: number | null;
  kind: string;
  undoes: string | null;
  relation: string;
  op: "insert" | "update" | "delete" | "truncate" | "more";
  /** null: not known. */
  source: "statement" | "trigger" | null;
  /** null: not known, or of no single row. */
  key: string | null;
  columns: string[] | null;
  /** Texts by column, at most 300 characters; null is NULL, and what is missing is not known. */
  before: Record<string, string | null> | null;
  after: Record<string, string | null> | null;
  omitted: string[];
  rows: string;
  committed_at: string;
  /** Columns of which more than 300 characters are recorded. */
  cut: string[];
  /** Columns that the login of the principal cannot read in the table. */
  hidden: string[];
}

/** `corrections`: one page, newest first; parameters as of `changes`. */
export interface Correction {
  run_id: string;
  commit_lsn: string;
  ordinal: number;
  column_name: string;
  place: string;
  agent: string | null;
  version: number | null;
  relation: string;
  /** null: of many rows. */
  key: string | null;
  kind: "changed" | "deleted" | "reverted" | "bulk";
  wrote: string | null;
  value: string | null;
  is_cut: boolean;
  omitted: boolean;
  rows: string;
  by_run: string | null;
  /** Who signed the transaction, or asked for the revert; null: not known. */
  corrected_by: string | null;
  committed_at: string;
  is_hidden: boolean;
}

/** `reverts`: runs that take a run back, and what it takes back itself; parameter: run. */
export interface Revert {
  id: string;
  undoes: string;
  state: string;
  is_dry: boolean;
  only_unchanged: boolean;
  is_partial: boolean;
  is_in_effect: boolean;
  by: string | null;
  result: string | null;
  created_at: string;
  finished_at: string | null;
}

/** What the step of a revert has recorded, as `revert` of its content. */
export interface RevertResult {
  dry_run?: boolean;
  done: boolean;
  steps: { step: number | null; done: boolean; rows: RevertedRow[] }[];
  outside?: { step: number; name: string }[];
  unseen?: { step: number; name: string }[];
}

export interface RevertedRow {
  op: string;
  table: string;
  key: Record<string, string | null> | null;
  outcome: "restored" | "already" | "trigger" | "refused";
  reason?: string;
  /** By column: what the run wrote, and what is there. */
  columns?: Record<string, [string | null, string | null]> | null;
  /** By column: what was there before, and what a trigger sets. */
  kept?: Record<string, [string | null, string | null]> | null;
}

export const CHANGE_FILTERS = ["agent", "table", "key", "column", "run", "since", "until"] as const;
export type ChangeFilter = Partial<Record<(typeof CHANGE_FILTERS)[number], string>>;

/** What is wrong with a value of the filter that the database could not read; undefined: nothing. */
export function wrongToken(name: string, value: string): string | undefined {
  if (name === "run") return /^\d{1,18}(,\d{1,18})*$/.test(value) ? undefined : "Numbers of runs, such as 17";
  return wrongValue(name, value);
}

/** The parameters of a filter, without what the database cannot read; `table` is a word of the shape protocol. */
export function changeParams(filter: ChangeFilter): Record<string, string> {
  return Object.fromEntries(
    CHANGE_FILTERS.map((name) => {
      const value = filter[name] ?? "";
      return [name === "table" ? "relation" : name, value && wrongToken(name, value) ? "" : value];
    }),
  );
}

export function tokensOf(filter: ChangeFilter): Token[] {
  return CHANGE_FILTERS.flatMap((name) => {
    const value = filter[name];
    if (!value) return [];
    const invalid = wrongToken(name, value);
    return [invalid ? { name, value, invalid } : { name, value }];
  });
}

/** What the filter suggests: agents and tables as those of runs do. */
export function suggestionsOf(known: readonly { name: string; value: string }[]): Suggestion[] {
  const of = (name: string) => known.filter((each) => each.name === name).map((each) => each.value);
  return [
    { name: "agent", values: of("agent"), hint: "the agent of the run" },
    { name: "table", values: of("table"), hint: "a table, with or without its schema" },
    { name: "key", hint: "the primary key, as text" },
    { name: "column", hint: "a column that was changed" },
    { name: "run", hint: "number of a run" },
    { name: "since", values: ["today", "1h", "24h", "7d"], hint: "today, 1h, 24h, 7d, or a time" },
    { name: "until", hint: "a time, or how long ago" },
  ];
}

/** A value of an image: a text, or why there is none. */
export type Value = { text: string; isCut: boolean } | "null" | "unknown" | "omitted" | "hidden";

export interface Line {
  column: string;
  /** null: there is no such side, as before an insert. */
  before: Value | null;
  after: Value | null;
}

type Images = Pick<RowChanged, "op" | "columns" | "before" | "after" | "omitted" | "cut" | "hidden">;

/** The columns of a change with their values, those first that the change names. */
export function linesOf(row: Images): Line[] {
  if (row.op === "truncate" || row.op === "more") return [];
  const images = [...Object.keys(row.after ?? {}), ...Object.keys(row.before ?? {})];
  const all = row.op === "update" && row.columns ? row.columns : [...images, ...row.hidden];
  // Of an update, an omitted column may have changed or not.
  return [...new Set([...all, ...row.omitted])].map((column) => ({
    column,
    before: row.op === "insert" ? null : valueOf(row, row.before, column),
    after: row.op === "delete" ? null : valueOf(row, row.after, column),
  }));
}

function valueOf(row: Images, image: RowChanged["before"], column: string): Value {
  const value = image?.[column];
  if (value === null) return "null";
  if (value !== undefined) return { text: value, isCut: row.cut.includes(column) && value.length >= 300 };
  if (row.omitted.includes(column)) return "omitted";
  return row.hidden.includes(column) ? "hidden" : "unknown";
}

/** The two values of a correction. */
export function correctedValues(row: Correction): { wrote: Value; value: Value | null } {
  const of = (text: string | null): Value =>
    row.omitted
      ? "omitted"
      : row.is_hidden
        ? "hidden"
        : text === null
          ? "null"
          : { text, isCut: row.is_cut && text.length >= 300 };
  return { wrote: of(row.wrote), value: row.kind === "deleted" ? null : of(row.value) };
}

/** The revert that keeps a run from being taken back again: one that has not ended, or that is in effect. */
export function standing(reverts: readonly Revert[], run: string): Revert | undefined {
  const ended = ["succeeded", "failed", "dead", "cancelled"];
  return reverts.find(
    (each) => each.undoes === run && !each.is_dry && (each.is_in_effect || !ended.includes(each.state)),
  );
}

/** The newest result of a revert, and whether what it did is kept. */
export function revertResult(steps: readonly Step[]): { result: RevertResult; isKept: boolean } | undefined {
  const step = steps.findLast((each) => each.kind === "result" && each.content.revert !== undefined);
  if (!step) return undefined;
  const result = step.content.revert as RevertResult;
  return { result, isKept: !result.dry_run && !step.content.is_error };
}

/** The outcome of a row as a badge: what a refused run did to its other rows was rolled back. */
export function outcomeOf(row: RevertedRow, isKept: boolean): { state: string; word: string } {
  switch (row.outcome) {
    case "refused":
      return { state: "failed", word: "refused" };
    case "already":
      return { state: "skipped", word: "was as before" };
    case "trigger":
      return isKept
        ? { state: "done", word: "taken back by a trigger" }
        : { state: "skipped", word: "a trigger would take it back" };
    case "restored":
      return isKept ? { state: "done", word: "restored" } : { state: "skipped", word: "would be restored" };
  }
}

/** The values of a row that was refused: what the run wrote, and what is there; then what a trigger sets. */
export function refusedLines({ columns, kept }: RevertedRow): { lines: Line[]; kept: Line[] } {
  const of = (text: string | null): Value => (text === null ? "null" : { text, isCut: false });
  const lines = (values: RevertedRow["columns"]) =>
    Object.entries(values ?? {}).map(([column, [was, is]]) => ({ column, before: of(was), after: of(is) }));
  return { lines: lines(columns), kept: lines(kept) };
}

/** Whether what a run changed can be taken back now; what forbids it for a row, only the revert can say. */
export function canTakeBack(run: { id: string; kind: string; state: string }, reverts: readonly Revert[]): boolean {
  const isDry = reverts.some((each) => each.id === run.id && each.is_dry);
  const isEnded = ["succeeded", "failed", "dead", "cancelled"].includes(run.state);
  return (
    ["agent", "turn", "node", "revert"].includes(run.kind) &&
    isEnded &&
    !isDry &&
    standing(reverts, run.id) === undefined
  );
}
