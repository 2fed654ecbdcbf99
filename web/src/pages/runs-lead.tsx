/** The head of the list of runs: title, saved filters and the filter bar. */
import { useMemo, useState } from "react";

import { csv } from "../data/csv";
import { type Suggestion, type Token, wrongValue } from "../data/filter";
import { atLeast } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { RUN_FILTERS, type RunFilter, type RunRow, useRunsCount } from "../data/runs";
import { useSavedFilters } from "../data/saved";
import { FilterBar } from "../parts/filterbar";
import { Icon } from "../parts/icon";
import { download } from "../parts/payload";
import { FilterTab, SaveFilter } from "./runs-saved";

const STATES = [
  "pending",
  "running",
  "waiting_approval",
  "waiting_retry",
  "needs_review",
  "succeeded",
  "failed",
  "dead",
  "cancelled",
  "skipped",
];
const BUILT_IN: readonly { name: string; filter: RunFilter }[] = [
  { name: "All", filter: {} },
  { name: "Waits for a person", filter: { state: "waiting_approval,needs_review" } },
  { name: "Failed and dead", filter: { state: "failed,dead" } },
];

/** Suggestions of these are examples. */
const isFree = (name: string) => ["since", "ended"].includes(name);

const SINCE = ["today", "1h", "24h", "7d"];

/** Title, saved filters and the filter bar. */
export function Lead({
  filter,
  setFilter,
  matching,
  rows,
}: {
  filter: RunFilter;
  setFilter: (filter: RunFilter) => void;
  matching: string;
  rows: readonly RunRow[];
}) {
  const total = useRunsCount({}).rows?.[0];
  const saved = useSavedFilters();
  const options = useQueryOnce<{ name: string; value: string }>("run_options").rows;
  const [isSaving, setSaving] = useState(false);
  const suggestions: Suggestion[] = useMemo(() => {
    const values = (name: string) => options?.filter((each) => each.name === name).map((each) => each.value) ?? [];
    return [
      { name: "state", values: STATES, hint: "one or more, with commas" },
      { name: "agent", values: values("agent"), hint: "name of an agent" },
      { name: "table", values: values("table"), hint: "table of the row" },
      { name: "key", hint: "key of the row" },
      { name: "since", values: SINCE, hint: "today, 1h, 24h, 7d, or a time such as 2026-11-24T10:00Z" },
      { name: "until", hint: "a time, or how long ago" },
      { name: "model", values: values("model"), hint: "model of the agent" },
      { name: "duration", hint: "at least 10s, or <10s" },
      { name: "cost", hint: "at least 0.05 dollars, or <0.05" },
      { name: "kind", values: ["agent", "question", "turn", "node", "embedding", "delivery"], hint: "kind of run" },
      { name: "reason", hint: "reason of a failure" },
      { name: "sqlstate", hint: "SQLSTATE of a failure, or none" },
      { name: "ended", values: SINCE, hint: "ended since: today, 1h, 24h, 7d" },
      ...(values("tenant").length > 1 ? [{ name: "tenant", values: values("tenant"), hint: "tenant" }] : []),
    ];
  }, [options]);
  const tokens: Token[] = RUN_FILTERS.flatMap((name) => {
    const value = filter[name];
    if (name === "q" || !value) return [];
    const known = suggestions.find((each) => each.name === name)?.values;
    const unknown =
      !isFree(name) && options && known?.length ? value.split(",").filter((each) => !known.includes(each)) : [];
    const problem = wrongValue(name, value);
    if (problem) return { name, value, invalid: problem };
    return unknown.length
      ? { name, value, invalid: `No ${name} has this name: ${unknown.join(", ")}` }
      : { name, value };
  });
  const change = (next: readonly Token[], text: string) =>
    setFilter({ ...Object.fromEntries(next.map((each) => [each.name, each.value])), ...(text ? { q: text } : {}) });
  const isFiltered = Object.keys(filter).length > 0;
  return (
    <div className="lead">
      <div className="row wrap">
        <h1>Runs</h1>
        <span className="muted">{(!isFiltered && matching) || (total && atLeast(total.count, total.is_least))}</span>
        <span className="end row">
          <button
            type="button"
            className="btn quiet small hide-s"
            disabled={!rows.length}
            onClick={() => exportRows(rows)}
            title="Save the loaded rows as CSV"
          >
            <Icon name="dl" small />
            Export
          </button>
          <button type="button" className="btn quiet small" disabled={!isFiltered} onClick={() => setSaving(true)}>
            <Icon name="star" small />
            Save filter
          </button>
        </span>
      </div>
      <nav className="tabs" aria-label="Saved filters">
        {BUILT_IN.map((each) => (
          <FilterTab key={each.name} name={each.name} filter={each.filter} current={filter} />
        ))}
        {saved.map((each) => (
          <FilterTab
            key={each.name}
            name={each.name}
            filter={Object.fromEntries(new URLSearchParams(each.query))}
            current={filter}
            saved={each}
          />
        ))}
      </nav>
      <FilterBar
        label="Filter runs"
        placeholder={tokens.length ? "" : "state:failed  table:support_tickets  13  …"}
        tokens={tokens}
        text={filter.q ?? ""}
        suggestions={suggestions}
        onChange={change}
        end={isFiltered && matching ? <span className="muted nowrap hide-s">{matching} match</span> : undefined}
      />
      {isSaving && <SaveFilter filter={filter} saved={saved} onClose={() => setSaving(false)} />}
    </div>
  );
}

const COLUMNS = [
  "id",
  "state",
  "agent",
  "relation",
  "key",
  "title",
  "what",
  "duration_ms",
  "model",
  "cost",
  "tokens",
  "committed_at",
  "finished_at",
] as const;

/** Save the loaded rows as CSV. */
function exportRows(rows: readonly RunRow[]): void {
  download(
    "runs.csv",
    csv(
      COLUMNS,
      rows.map((row) => COLUMNS.map((name) => row[name])),
    ),
    "text/csv",
  );
}
