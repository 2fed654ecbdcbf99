/** Rows that runs changed, newest first; and what others changed of them. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";

import {
  CHANGE_FILTERS,
  type ChangeFilter,
  changeParams,
  type Correction,
  type RowChanged,
  suggestionsOf,
  tokensOf,
} from "../data/changes";
import { usePages } from "../data/pages";
import { useQueryOnce } from "../data/queries";
import { useTitle } from "../frame/title";
import { ChangedRow, CorrectedValue } from "../parts/changed";
import { FilterBar } from "../parts/filterbar";
import { Icon } from "../parts/icon";
import { More } from "../parts/more";
import { Problem } from "../parts/notice";
import { OwnOnly } from "../parts/own-only";
import { Empty, Panel, Skeleton } from "../parts/panel";

const TABS = [
  { name: "Changes", tab: undefined },
  { name: "Corrections", tab: "corrections" },
] as const;

const NONE: readonly { name: string; value: string }[] = [];

export default function Changes(): ReactNode {
  useTitle("Changes");
  const { tab, ...search } = useSearch({ from: "/signed-in/changes" });
  const navigate = useNavigate();
  const filter = Object.fromEntries(
    CHANGE_FILTERS.flatMap((name) => (search[name] ? [[name, search[name]]] : [])),
  ) as ChangeFilter;
  const known = useQueryOnce<{ name: string; value: string }>("run_options").rows ?? NONE;
  const suggestions = useMemo(() => suggestionsOf(known), [known]);
  const tokens = tokensOf(filter);
  const isOfCorrections = tab === "corrections";
  return (
    <div className="stack">
      <div className="head">
        <h1>Changes</h1>
        <span className="muted">
          {isOfCorrections ? "what others changed of what agents wrote" : "rows that runs changed"}
        </span>
      </div>
      <OwnOnly />
      <nav className="tabs" aria-label="Changes and corrections">
        {TABS.map((each) => (
          <Link
            key={each.name}
            to="/changes"
            search={{ ...filter, tab: each.tab }}
            activeOptions={{ exact: true, explicitUndefined: true }}
            activeProps={{ "aria-current": "page" }}
            replace
          >
            {each.name}
          </Link>
        ))}
      </nav>
      <FilterBar
        label="Filter changes"
        placeholder={tokens.length ? "" : "agent:triage  table:ticket  key:42  since:24h  …"}
        tokens={tokens}
        // A text without a token is a key: nothing else of a change is searched.
        text=""
        suggestions={suggestions}
        onChange={(next, text) =>
          void navigate({
            to: "/changes",
            search: {
              ...Object.fromEntries(next.map((each) => [each.name, each.value])),
              ...(text ? { key: text } : {}),
              tab,
            },
            replace: true,
          })
        }
      />
      {isOfCorrections ? (
        <List<Correction>
          key={JSON.stringify(filter)}
          name="corrections"
          filter={filter}
          show={(row) => <CorrectedValue key={row.place} row={row} />}
          empty={["Nothing was corrected", "What people and applications change of what agents wrote is listed here."]}
        />
      ) : (
        <List<RowChanged>
          key={JSON.stringify(filter)}
          name="changes"
          filter={filter}
          show={(row) => <ChangedRow key={row.place} row={row} />}
          empty={[
            "No change was recorded",
            "The rows that tools of agents change are listed here, with what was there before, as far as the WAL has it.",
          ]}
        />
      )}
    </div>
  );
}

interface ListProps<T> {
  name: "changes" | "corrections";
  filter: ChangeFilter;
  show: (row: T) => ReactNode;
  empty: readonly [string, string];
}

/** A list in pages; what came after it was read is one click away. */
function List<T extends { place: string }>(props: ListProps<T>) {
  const [turn, setTurn] = useState(0);
  return <Rows key={turn} {...props} again={() => setTurn(turn + 1)} />;
}

function Rows<T extends { place: string }>({ name, filter, show, empty, again }: ListProps<T> & { again: () => void }) {
  const params = changeParams(filter);
  const pages = usePages<T>(name, params, { limit: 50, before: (row) => row.place });
  const newest = useQueryOnce<T>(name, { ...params, before: "", limit: 1 }, { every: 10_000, skip: pages.isLoading });
  const first = newest.rows?.[0]?.place;
  const isFiltered = Object.keys(filter).length > 0;
  const title = name === "changes" ? "Changes" : "Corrections";
  if (pages.isLoading)
    return (
      <Panel label={title} flush busy>
        <Skeleton rows={8} />
      </Panel>
    );
  if (pages.error && pages.rows.length === 0)
    return (
      <Panel title={title} flush>
        <Problem error={pages.error} again={pages.more} />
      </Panel>
    );
  const fresh = first !== undefined && first !== pages.rows[0]?.place && (
    <button type="button" className="newrows" onClick={again}>
      <Icon name="up" small />
      Show what is new
    </button>
  );
  if (pages.rows.length === 0)
    return (
      <>
        {fresh}
        <Empty
          title={isFiltered ? "Nothing matches" : empty[0]}
          action={
            isFiltered ? (
              <Link className="btn small" to="/changes" search={{ tab: name === "changes" ? undefined : name }}>
                Clear the filter
              </Link>
            ) : undefined
          }
        >
          {isFiltered ? "All that is recorded was searched." : empty[1]}
        </Empty>
      </>
    );
  return (
    <>
      {fresh}
      <Panel label={title} flush>
        {pages.rows.map(show)}
        <More of={pages} />
      </Panel>
    </>
  );
}
