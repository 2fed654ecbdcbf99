/** Runs: a virtual list in keyset pages, a filter of tokens, a panel beside it, actions on many. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import {
  type ReactNode,
  memo,
  type MouseEvent,
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";

import { actOnMany, type BulkAction } from "../data/bulk";
import { csv } from "../data/csv";
import type { Suggestion, Token } from "../data/filter";
import { atLeast, money, number } from "../data/format";
import { isNarrow } from "../data/local";
import { readQuery, useQueryOnce } from "../data/queries";
import { type Refused, refused } from "../data/request";
import {
  badge,
  filterParams,
  isOpen,
  RUN_FILTERS,
  type RunFilter,
  type RunRow,
  useRuns,
  useRunsCount,
} from "../data/runs";
import { removeFilter, type SavedFilter, saveFilter, useSavedFilters } from "../data/saved";
import { useKeys } from "../frame/keyboard";
import { useTitle } from "../frame/title";
import { Confirm, Dialog } from "../parts/confirm";
import { FilterBar } from "../parts/filterbar";
import { Icon } from "../parts/icon";
import { Problem } from "../parts/notice";
import { Of, pathOf } from "../parts/of";
import { EmptyBody, Skeleton } from "../parts/panel";
import { download } from "../parts/payload";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";
import { ConfirmRetry, useMayOperate } from "./failed-group";
import { RunPanel } from "./run-panel";
import { lastList } from "./runs-list";

const PAGE = 200;
const LIVE = 100;
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

export default function Runs(): ReactNode {
  useTitle("Runs");
  const search = useSearch({ from: "/signed-in/runs" });
  const navigate = useNavigate();
  const filter = useMemo(
    () => Object.fromEntries(RUN_FILTERS.flatMap((name) => (search[name] ? [[name, search[name]]] : []))) as RunFilter,
    [search],
  );
  const setFilter = (next: RunFilter) => void navigate({ to: "/runs", search: next });
  const setPanel = (panel: string | undefined) =>
    void navigate({
      to: "/runs",
      search: { ...filter, panel },
      replace: Boolean(search.panel && panel),
      resetScroll: false,
    });
  return (
    <div className={`split${search.panel ? "" : " alone"}`}>
      <RunList
        key={JSON.stringify(filter)}
        filter={filter}
        setFilter={setFilter}
        panel={search.panel}
        setPanel={setPanel}
      />
      {search.panel && <RunPanel run={search.panel} onClose={() => setPanel(undefined)} />}
    </div>
  );
}

interface ListProps {
  filter: RunFilter;
  setFilter: (filter: RunFilter) => void;
  panel: string | undefined;
  setPanel: (run: string | undefined) => void;
}

function RunList({ filter, setFilter, panel, setPanel }: ListProps) {
  const [seen, setSeen] = useState<readonly string[]>([]);
  const list = useList(filter, seen);
  const [cursor, setCursor] = useState<string | null>(panel ?? null);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [isAll, setAll] = useState(false);
  const [isHovered, setHovered] = useState(false);
  const anchor = useRef<string | null>(null);
  const counted = useRunsCount(filter);
  const counts = counted.rows?.[0];
  const navigate = useNavigate();
  const { rows, fresh, show } = list;

  // New rows come by themselves only while nobody could be reading or aiming at one.
  const isIdle = !cursor && selected.size === 0 && !isAll && !isHovered && !panel;
  useEffect(() => {
    if (isIdle && fresh.length && scrollY < 40) show();
  }, [isIdle, fresh, show]);
  useEffect(() => {
    lastList.ids = rows?.map((row) => row.id) ?? [];
    lastList.search = filter;
    lastList.label = Object.entries(filter)
      .map(([name, value]) => `${name} ${value}`)
      .join(", ");
  }, [rows, filter]);

  const body = useRef<HTMLTableSectionElement>(null);
  const virtual = useVirtual(rows?.length ?? 0, body);
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  const shown = items.flatMap((item) => rows?.[item.index]?.id ?? []).join();
  useEffect(() => setSeen(shown ? shown.split(",") : []), [shown]);
  useEffect(() => {
    if (rows && last >= rows.length - 40) list.more();
  }, [last, rows, list]);

  const move = (by: number) => {
    if (!rows?.length) return;
    const at = rows.findIndex((row) => row.id === cursor);
    const next = rows[at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1)];
    if (!next) return;
    setCursor(next.id);
    virtual.scrollToIndex(rows.indexOf(next), { align: "auto" });
    requestAnimationFrame(() =>
      body.current?.querySelector<HTMLElement>(`[data-run="${next.id}"]`)?.focus({ preventScroll: true }),
    );
    if (panel) setPanel(next.id);
  };
  const toggle = (id: string, isRange = false) => {
    setAll(false);
    const next = new Set(selected);
    const from = rows?.findIndex((row) => row.id === anchor.current) ?? -1;
    const to = rows?.findIndex((row) => row.id === id) ?? -1;
    if (isRange && rows && from >= 0 && to >= 0)
      for (const row of rows.slice(Math.min(from, to), Math.max(from, to) + 1)) next.add(row.id);
    else if (!next.delete(id)) next.add(id);
    anchor.current = id;
    setSelected(next);
  };
  const clear = () => {
    setSelected(new Set());
    setAll(false);
  };
  const openPage = (id: string) => void navigate({ to: "/runs/$run", params: { run: id } });
  const open = (id: string) => {
    setCursor(id);
    if (isNarrow()) openPage(id);
    else setPanel(panel === id ? undefined : id);
  };
  // The same functions for each row and render, so that scrolling renders new rows alone.
  const acts = useRef({ toggle, open });
  useLayoutEffect(() => {
    acts.current = { toggle, open };
  });
  const onToggle = useCallback((id: string, isRange: boolean) => acts.current.toggle(id, isRange), []);
  const onOpen = useCallback((id: string) => acts.current.open(id), []);
  const bulk = useBulk(filter, rows ?? [], selected, isAll, Number(counts?.count ?? 0), cursor, () => {
    clear();
    counted.again();
    list.look();
  });
  const ofCursor = rows?.find((row) => row.id === cursor);
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    x: () => (cursor ? toggle(cursor) : false),
    "Shift+x": () => (cursor ? toggle(cursor, true) : false),
    "Mod+a": () => {
      setSelected(new Set());
      setAll(true);
    },
    Enter: (event) =>
      cursor && !(event.target as HTMLElement).closest("a,button,input,summary") ? open(cursor) : false,
    o: () => (cursor ? openPage(cursor) : false),
    ".": () => (fresh.length ? show() : false),
    r: () => bulk.ask("retry"),
    c: () => bulk.ask("cancel"),
    w: () => {
      const path = ofCursor && pathOf(ofCursor);
      return path ? void navigate(path) : false;
    },
    Escape: () => {
      if (panel) setPanel(undefined);
      else if (selected.size || isAll) clear();
      else if (cursor) setCursor(null);
      else return false;
    },
  });

  const isFiltered = Object.keys(filter).length > 0;
  // Rows arrive between two counts.
  const matching = counts ? atLeast(Math.max(Number(counts.count), rows?.length ?? 0), counts.is_least) : "";
  return (
    <section aria-label="Runs">
      <Lead filter={filter} setFilter={setFilter} matching={matching} rows={rows ?? []} />
      {(selected.size > 0 || isAll) && (
        <div className="bulk" role="status">
          <b className="strong">
            {isAll ? `All ${matching} matching are selected` : `${number(selected.size)} selected`}
          </b>
          {!isAll && matching && (
            <button type="button" className="linkish" onClick={() => setAll(true)}>
              Select all {matching} matching
            </button>
          )}
          <span className="end row wrap">
            {bulk.buttons}
            <button type="button" className="btn quiet small" onClick={clear}>
              Clear <kbd>Esc</kbd>
            </button>
          </span>
        </div>
      )}
      <div
        className="list"
        role="region"
        aria-label="List of runs"
        onMouseEnter={() => setHovered(true)}
        onMouseLeave={() => setHovered(false)}
      >
        {fresh.length > 0 && (
          <button type="button" className="newrows" onClick={show}>
            <Icon name="up" small />
            {number(fresh.length)} new {fresh.length === 1 ? "run" : "runs"} <kbd>.</kbd>
          </button>
        )}
        {list.error && !rows ? (
          <Problem error={list.error} again={list.again} />
        ) : rows === null ? (
          <Skeleton rows={12} label="Runs are loading" />
        ) : rows.length === 0 ? (
          <Nothing filter={filter} isFiltered={isFiltered} setFilter={setFilter} />
        ) : (
          <table className="cards" role="grid" aria-label="Runs" aria-rowcount={Number(counts?.count ?? -1)}>
            <colgroup>
              <col className="w-c hide-s" />
              <col className="w-s" />
              <col className="w-id" />
              <col className="w-row" />
              {!panel && <col className="hide-s hide-m" />}
              {panel && <col className="hide-s hide-m w-what" />}
              <col className="w-n hide-s" />
              <col className="w-t" />
            </colgroup>
            <thead>
              <tr>
                <th className="hide-s">
                  <input
                    type="checkbox"
                    aria-label="Select all shown"
                    checked={isAll || (rows.length > 0 && selected.size === rows.length)}
                    onChange={(event) =>
                      event.target.checked ? setSelected(new Set(rows.map((row) => row.id))) : clear()
                    }
                  />
                </th>
                <th scope="col">State</th>
                <th scope="col" className="num">
                  Run
                </th>
                <th scope="col">Row</th>
                <th scope="col" className="hide-s hide-m">
                  What happened
                </th>
                <th scope="col" className="num hide-s">
                  Cost
                </th>
                <th scope="col" className="num" aria-sort="descending">
                  When ↓
                </th>
              </tr>
            </thead>
            <tbody ref={body}>
              <Spacer height={(items[0]?.start ?? 0) - virtual.options.scrollMargin} />
              {items.map((item) => {
                const row = rows[item.index];
                return (
                  row && (
                    <Row
                      key={row.id}
                      index={item.index}
                      measure={virtual.measureElement}
                      row={row}
                      isGone={list.gone.has(row.id)}
                      isCursor={cursor === row.id || panel === row.id}
                      isFirst={cursor === null && item.index === 0}
                      isSelected={isAll || selected.has(row.id)}
                      onToggle={onToggle}
                      onOpen={onOpen}
                    />
                  )
                );
              })}
              <Spacer height={virtual.getTotalSize() - ((items.at(-1)?.end ?? 0) - virtual.options.scrollMargin)} />
            </tbody>
          </table>
        )}
      </div>
      <div className="listfoot">
        {rows && rows.length > 0 && (
          <span>
            Rows {number((virtual.range?.startIndex ?? 0) + 1)} to{" "}
            {number(Math.min((virtual.range?.endIndex ?? last) + 1, rows.length))} of {matching || number(rows.length)}
            {list.isLoadingMore && ", loading more"}
          </span>
        )}
        {list.error && rows && (
          <button type="button" className="linkish" onClick={list.more}>
            More rows were not loaded: {list.error.message} Try again
          </button>
        )}
        <span className="hide-s">
          <kbd>j</kbd> <kbd>k</kbd> move
        </span>
        <span className="hide-s">
          <kbd>x</kbd> select
        </span>
        <span className="hide-s">
          <kbd>↵</kbd> open
        </span>
        <span className="hide-s">
          <kbd>r</kbd> retry
        </span>
        <span className="hide-s">
          <kbd>?</kbd> all keys
        </span>
      </div>
      {bulk.dialog}
    </section>
  );
}

function Spacer({ height }: { height: number }) {
  return height > 0 ? (
    <tr aria-hidden="true" className="spacer">
      <td colSpan={7} style={{ height }} />
    </tr>
  ) : null;
}

interface RowProps {
  row: RunRow;
  index: number;
  measure: (node: Element | null) => void;
  isGone: boolean;
  isCursor: boolean;
  isFirst: boolean;
  isSelected: boolean;
  onToggle: (id: string, isRange: boolean) => void;
  onOpen: (id: string) => void;
}

const Row = memo(function Row({
  row,
  index,
  measure,
  isGone,
  isCursor,
  isFirst,
  isSelected,
  onToggle,
  onOpen,
}: RowProps) {
  const click = (event: MouseEvent) => {
    if ((event.target as HTMLElement).closest("a,input,button") || getSelection()?.toString()) return;
    onOpen(row.id);
  };
  return (
    <tr
      ref={measure}
      data-index={index}
      data-run={row.id}
      aria-rowindex={index + 1}
      tabIndex={isCursor || isFirst ? 0 : -1}
      className={`${isCursor ? "cursor" : ""}${isGone ? " gone" : ""}`}
      aria-selected={isSelected}
      title={isGone ? "It no longer matches the filter." : undefined}
      onClick={click}
    >
      <td className="hide-s">
        <input
          type="checkbox"
          aria-label={`Select run ${row.id}`}
          checked={isSelected}
          readOnly
          onClick={(event) => onToggle(row.id, event.shiftKey)}
          tabIndex={-1}
        />
      </td>
      <td className="inline nowrap">
        <State state={badge(row.state)} />
      </td>
      <td className="num inline">
        <Link to="/runs/$run" params={{ run: row.id }} tabIndex={-1}>
          {row.id}
        </Link>
      </td>
      <td className="clip">
        <Of run={row} strong />
      </td>
      <td className="clip hide-s hide-m soft">
        <What row={row} />
      </td>
      <td className="num hide-s">{row.cost !== null ? money(row.cost) : ""}</td>
      <td className="num nowrap inline">
        <Time at={row.committed_at ?? row.created_at} short />
      </td>
    </tr>
  );
});

function What({ row }: { row: RunRow }) {
  if (row.state === "pending" && row.blocked_by) return <>blocked by run {row.blocked_by}</>;
  if (row.state === "waiting_retry" && row.next_attempt_at)
    return (
      <>
        {row.what}, next attempt <Time at={row.next_attempt_at} />
      </>
    );
  return <>{row.what}</>;
}

function Nothing({
  filter,
  isFiltered,
  setFilter,
}: {
  filter: RunFilter;
  isFiltered: boolean;
  setFilter: (filter: RunFilter) => void;
}) {
  if (!isFiltered)
    return (
      <EmptyBody title="No runs yet" command="walagent agents attach TABLE 'agent=NAME'">
        Attach an agent to a table. Each matching change will start a run here.
      </EmptyBody>
    );
  const names = Object.keys(filter) as (keyof RunFilter)[];
  return (
    <EmptyBody
      title="No run matches"
      action={
        <div className="row wrap">
          {names.map((name) => (
            <button
              key={name}
              type="button"
              className="btn small"
              onClick={() => {
                setFilter({ ...filter, [name]: undefined });
              }}
            >
              Remove {name === "q" ? `“${filter.q}”` : `${name}:${filter[name]}`}
            </button>
          ))}
          <button type="button" className="btn quiet small" onClick={() => setFilter({})}>
            Clear all
          </button>
        </div>
      }
    >
      All runs are hidden by {names.length === 1 ? "1 filter" : `${names.length} filters`}.
    </EmptyBody>
  );
}

const LOOK = 5_000; // milliseconds between two looks at rows that no shape follows

/**
 * The loaded rows, with what the live shape of the newest ones says; of others, what they are now.
 *
 * @param seen IDs of those on screen: a row that is older, or has left the filter, is in no shape.
 */
function useList(filter: RunFilter, seen: readonly string[]) {
  const [loaded, setLoaded] = useState<readonly RunRow[] | null>(null);
  const [error, setError] = useState<Refused | null>(null);
  const [isLoadingMore, setLoadingMore] = useState(false);
  const [isEnd, setEnd] = useState(false);
  const isBusy = useRef(false);
  const live = useRuns(filter, LIVE);

  const read = useCallback(
    async (before: string) => {
      if (isBusy.current) return;
      isBusy.current = true;
      setLoadingMore(before !== "");
      try {
        const found = await readQuery<RunRow>("runs", { ...filterParams(filter), before, limit: PAGE });
        setLoaded((old) => (before ? [...(old ?? []), ...found] : found));
        setEnd(found.length < PAGE);
        setError(null);
      } catch (problem) {
        setError(refused(problem));
      }
      setLoadingMore(false);
      isBusy.current = false;
    },
    [filter],
  );
  useEffect(() => void read(""), [read]);

  const byId = useMemo(() => new Map(live.rows.map((row) => [row.id, row])), [live.rows]);
  const fresh = useMemo(() => {
    const newest = Number(loaded?.[0]?.id ?? 0);
    if (!loaded || live.isLoading) return [];
    return live.rows.filter((row) => Number(row.id) > newest).sort((a, b) => Number(b.id) - Number(a.id));
  }, [loaded, live.rows, live.isLoading]);
  // Of the rows that the shape would have, those that it no longer has do not match any more.
  const lowest = useMemo(
    () => (live.rows.length < LIVE ? 0 : Math.min(...live.rows.map((row) => Number(row.id)))),
    [live.rows],
  );
  const gone = useMemo(
    () =>
      new Set(
        live.isLoading || !loaded
          ? []
          : loaded.filter((row) => Number(row.id) >= lowest && !byId.has(row.id)).map((row) => row.id),
      ),
    [loaded, byId, lowest, live.isLoading],
  );
  const alone = live.isLoading ? [] : seen.filter((id) => !byId.has(id));
  const now = useQueryOnce<RunRow>("runs_shown", { ids: alone.join() }, { every: LOOK, skip: alone.length === 0 });
  const [later, setLater] = useState<ReadonlyMap<string, RunRow>>(new Map());
  useEffect(() => {
    if (now.rows?.length)
      setLater((old) => new Map([...old, ...(now.rows ?? []).map((row) => [row.id, row] as const)]));
  }, [now.rows]);
  const rows = useMemo(
    () => loaded?.map((row) => byId.get(row.id) ?? later.get(row.id) ?? row) ?? null,
    [loaded, byId, later],
  );
  return {
    rows,
    fresh,
    gone,
    error,
    isLoadingMore,
    show: useCallback(() => setLoaded((old) => [...fresh, ...(old ?? [])]), [fresh]),
    more: () => !isEnd && loaded?.length && void read(loaded.at(-1)?.id ?? ""),
    again: () => void read(""),
    look: now.again,
  };
}

function useVirtual(count: number, body: RefObject<HTMLElement | null>) {
  const [margin, setMargin] = useState(300);
  const isSmall = isNarrow();
  // eslint-disable-next-line react-hooks/exhaustive-deps -- measured after each render, until it is what it was
  useLayoutEffect(() => {
    const top = body.current && body.current.getBoundingClientRect().top + scrollY;
    if (top && Math.abs(top - margin) > 2) setMargin(top);
  });
  return useWindowVirtualizer({ count, estimateSize: () => (isSmall ? 58 : 30), overscan: 12, scrollMargin: margin });
}

const SINCE = ["today", "1h", "24h", "7d"];

/** Title, saved filters and the filter bar. */
function Lead({
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
      { name: "since", values: SINCE, hint: "today, 1h, 24h, 7d" },
      { name: "kind", values: ["agent", "question", "turn", "workflow"], hint: "kind of run" },
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
      !["since", "ended"].includes(name) && options && known?.length
        ? value.split(",").filter((each) => !known.includes(each))
        : [];
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

function isSame(a: RunFilter, b: RunFilter): boolean {
  return JSON.stringify(filterParams(a)) === JSON.stringify(filterParams(b));
}

function FilterTab({
  name,
  filter,
  current,
  saved,
}: {
  name: string;
  filter: RunFilter;
  current: RunFilter;
  saved?: SavedFilter;
}) {
  const isCurrent = isSame(filter, current);
  const isCounted = name !== "All";
  const count = useQueryOnce<{ count: string; is_least: boolean }>("runs_count", filterParams(filter), {
    every: 30_000,
    skip: !isCounted,
  }).rows?.[0];
  return (
    <span className="row tab">
      <Link
        to="/runs"
        search={filter}
        activeOptions={{ exact: true, includeSearch: true }}
        activeProps={{}}
        aria-current={isCurrent || undefined}
        title={saved && `Saved by ${saved.saved_by}`}
      >
        {name} {isCounted && count && <span className="count">{atLeast(count.count, count.is_least)}</span>}
      </Link>
      {saved?.is_removable && isCurrent && (
        <button
          type="button"
          className="copy"
          aria-label={`Remove the saved filter ${name}`}
          onClick={() => {
            removeFilter(saved.name)
              .then(() =>
                toast(
                  <>Removed the filter {name}.</>,
                  saved.is_mine
                    ? { action: { label: "Undo", key: "u", run: () => void saveFilter(saved).catch(toastProblem) } }
                    : {},
                ),
              )
              .catch(toastProblem);
          }}
        >
          ×
        </button>
      )}
    </span>
  );
}

function SaveFilter({
  filter,
  saved,
  onClose,
}: {
  filter: RunFilter;
  saved: readonly SavedFilter[];
  onClose: () => void;
}) {
  const [name, setName] = useState("");
  const known = saved.find((each) => each.name === name.trim());
  const taken = known && !known.is_mine ? known.saved_by : undefined;
  const isReady = Boolean(name.trim()) && !taken;
  const save = () => {
    saveFilter({ name: name.trim(), query: new URLSearchParams(filter as Record<string, string>).toString() }).then(
      onClose,
      toastProblem,
    );
  };
  return (
    <Dialog
      title="Save filter"
      onClose={onClose}
      foot={
        <>
          <button type="button" className="btn primary" disabled={!isReady} onClick={save}>
            Save filter
          </button>
          <button type="button" className="btn quiet" onClick={onClose}>
            Do not save
          </button>
        </>
      }
    >
      <form
        className="body stack tight"
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) save();
        }}
      >
        <label className="field">
          Name
          <input
            type="text"
            value={name}
            maxLength={60}
            autoFocus
            onChange={(event) => setName(event.target.value)}
            placeholder="For example: Refunds over 100"
          />
        </label>
        <p className={taken ? "missing" : "soft"} role={taken ? "alert" : undefined}>
          {taken
            ? `${taken} saved a filter of this name; choose another.`
            : known
              ? "Your filter of this name is replaced."
              : "All who see the runs see it."}
        </p>
      </form>
    </Dialog>
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

/** Retry and cancel: of the selection, else of the row under the cursor. */
function useBulk(
  filter: RunFilter,
  rows: readonly RunRow[],
  selected: ReadonlySet<string>,
  isAll: boolean,
  total: number,
  cursor: string | null,
  clear: () => void,
) {
  const [asked, setAsked] = useState<BulkAction | null>(null);
  const mayOperate = useMayOperate();
  const chosen = selected.size ? rows.filter((row) => selected.has(row.id)) : rows.filter((row) => row.id === cursor);
  const of = {
    retry: chosen.filter((row) => ["failed", "dead", "cancelled"].includes(row.state)),
    cancel: chosen.filter((row) => isOpen(row.state)),
  };
  const amount = (action: BulkAction) => (isAll ? total : of[action].length);
  const ask = (action: BulkAction) => (mayOperate && amount(action) > 0 ? setAsked(action) : false);
  const go = (action: BulkAction) => async () => {
    await actOnMany(action, isAll ? filter : of[action].map((row) => row.id), amount(action));
    clear();
  };
  const words = (action: BulkAction) =>
    `${isAll ? "" : number(amount(action))}${isAll ? `up to ${number(total)}` : ""} ${amount(action) === 1 ? "run" : "runs"}`;
  const dialog =
    asked === "retry" ? (
      <ConfirmRetry
        title={`Retry ${words("retry")}?`}
        what={words("retry")}
        onConfirm={go("retry")}
        onClose={() => setAsked(null)}
      />
    ) : asked === "cancel" ? (
      <Confirm
        title={`Cancel ${words("cancel")}?`}
        action={`Cancel ${words("cancel")}`}
        keep="Keep as they are"
        danger
        onConfirm={go("cancel")}
        onClose={() => setAsked(null)}
      >
        <p>They end after the step that is being executed. What they have committed stays.</p>
      </Confirm>
    ) : null;
  const buttons = mayOperate && (
    <>
      <button type="button" className="btn small" disabled={amount("retry") === 0} onClick={() => ask("retry")}>
        <Icon name="retry" small />
        Retry {number(amount("retry"))}…
      </button>
      <button type="button" className="btn small" disabled={amount("cancel") === 0} onClick={() => ask("cancel")}>
        <Icon name="x" small />
        Cancel {number(amount("cancel"))}…
      </button>
    </>
  );
  return { ask, buttons, dialog };
}
