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
import type { Unscored } from "../data/scores";
import { useTitle } from "../frame/title";
import { ChangedRow, CorrectedValue } from "../parts/changed";
import { FilterBar } from "../parts/filterbar";
import { Icon } from "../parts/icon";
import { More } from "../parts/more";
import { Problem } from "../parts/notice";
import { OwnOnly } from "../parts/own-only";
import { Empty, Panel, Skeleton } from "../parts/panel";
import { UnscoredRun } from "./changes-unscored";

const TABS = [
  { name: "Changes", tab: undefined },
  { name: "Corrections", tab: "corrections" },
  { name: "To score", tab: "unscored" },
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
  // Another tab is another list: what one still reads is not what the next one waits for.
  const key = `${tab ?? "changes"} ${JSON.stringify(filter)}`;
  return (
    <div className="stack">
      <div className="head">
        <h1>Changes</h1>
        <span className="muted">
          {tab === "corrections"
            ? "what others changed of what agents wrote"
            : tab === "unscored"
              ? "succeeded runs that a person should look at"
              : "rows that runs changed"}
        </span>
      </div>
      <OwnOnly />
      <nav className="tabs" aria-label="Changes, corrections, runs to score">
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
      {tab === "unscored" ? (
        <List<Unscored>
          key={key}
          name="unscored"
          filter={filter}
          every={60_000}
          show={(row) => <UnscoredRun key={row.place} row={row} />}
          empty={[
            "No run of the last 7 days is to be scored",
            "Succeeded runs are listed here whose values were changed later, that came near a limit, that made mistakes on the way, or that are of the sample that score_share names.",
          ]}
        />
      ) : tab === "corrections" ? (
        <List<Correction>
          key={key}
          name="corrections"
          filter={filter}
          show={(row) => <CorrectedValue key={row.place} row={row} />}
          empty={["Nothing was corrected", "What people and applications change of what agents wrote is listed here."]}
        />
      ) : (
        <List<RowChanged>
          key={key}
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
  name: "changes" | "corrections" | "unscored";
  filter: ChangeFilter;
  /** Between two looks for what is new, in ms. */
  every?: number;
  show: (row: T) => ReactNode;
  empty: readonly [string, string];
}

/** A list in pages; what came after it was read is one click away. */
function List<T extends { place: string }>(props: ListProps<T>) {
  const [turn, setTurn] = useState(0);
  return <Rows key={turn} {...props} again={() => setTurn(turn + 1)} />;
}

const TITLES = { changes: "Changes", corrections: "Corrections", unscored: "Runs to score" } as const;

function Rows<T extends { place: string }>({
  name,
  filter,
  every = 10_000,
  show,
  empty,
  again,
}: ListProps<T> & { again: () => void }) {
  const params = changeParams(filter);
  const pages = usePages<T>(name, params, { limit: 50, before: (row) => row.place });
  const newest = useQueryOnce<T>(name, { ...params, before: "", limit: 1 }, { every, skip: pages.isLoading });
  const first = newest.rows?.[0]?.place;
  const isFiltered = Object.keys(filter).length > 0;
  const title = TITLES[name];
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
  const shown = pages.rows[0]?.place;
  // Of runs to score, the first can be another one because somebody has scored the one before.
  const isNew = name === "unscored" && shown !== undefined ? Number(first) > Number(shown) : first !== shown;
  const fresh = first !== undefined && isNew && (
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
          {!isFiltered
            ? empty[1]
            : name === "unscored" && !filter.since
              ? "The last 7 days were searched; since: looks further back."
              : "All that is recorded was searched."}
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
