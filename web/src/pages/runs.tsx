/** Runs: a virtual list in keyset pages, a filter of tokens, a panel beside it, actions on many. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { keep, kept } from "../data/back";
import { atLeast, number } from "../data/format";
import { isNarrow } from "../data/local";
import { useRunList } from "../data/run-list";
import { useSearched } from "../data/reach";
import { RUN_FILTERS, type RunFilter, useRunsCount } from "../data/runs";
import { useKeys } from "../frame/keyboard";
import { useTitle } from "../frame/title";
import { Icon } from "../parts/icon";
import { Problem } from "../parts/notice";
import { pathOf } from "../parts/of";
import { OwnOnly } from "../parts/own-only";
import { Skeleton } from "../parts/panel";
import { RunPanel } from "./run-panel";
import { useBulk } from "./runs-bulk";
import { Chosen, Head, Keys } from "./runs-frame";
import { Histogram } from "./runs-histogram";
import { Lead } from "./runs-lead";
import { lastList } from "./runs-list";
import { HowFar, Nothing } from "./runs-nothing";
import { Row, Spacer } from "./runs-rows";
import { useVirtual } from "./runs-virtual";

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
  const searched = useSearched(filter);
  const list = useRunList(filter, searched, seen);
  const [cursor, setCursor] = useState<string | null>(() => panel ?? (kept("cursor") as string | undefined) ?? null);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [isAll, setAll] = useState(false);
  const [isHovered, setHovered] = useState(false);
  useEffect(() => keep("cursor", cursor), [cursor]);
  const anchor = useRef<string | null>(null);
  const counted = useRunsCount({ ...filter, oldest: searched.first }, searched.reach === null);
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
  useEffect(() => {
    if (isNarrow()) keep("heights", virtual.takeSnapshot()); // on a desk, all rows are of one height
  }, [shown, virtual]);
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
  // Rows arrive between two counts.
  const count = Math.max(Number(counts?.count ?? 0) + searched.older, rows?.length ?? 0);
  const search = { ...filter, oldest: searched.reach?.oldest ?? "" };
  const bulk = useBulk(search, rows ?? [], selected, isAll, count, cursor, () => {
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

  const error = list.error ?? searched.error;
  const isPartial = Boolean(searched.reach?.is_partial);
  const matching = counts ? atLeast(count, counts.is_least || isPartial) : "";
  return (
    <section aria-label="Runs">
      <Lead filter={filter} setFilter={setFilter} matching={matching} rows={rows ?? []} />
      <Histogram
        filter={filter}
        search={{ ...filter, oldest: searched.reach?.oldest ?? "" }}
        skip={searched.reach === null}
      />
      {(selected.size > 0 || isAll) && (
        <Chosen
          isAll={isAll}
          selected={selected.size}
          count={count}
          matching={matching}
          buttons={bulk.buttons}
          selectAll={() => setAll(true)}
          clear={clear}
        />
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
        <OwnOnly />
        <HowFar searched={searched} />
        {error && !rows ? (
          <Problem error={error} again={list.again} />
        ) : rows === null ? (
          <Skeleton rows={12} label="Runs are loading" />
        ) : rows.length === 0 ? (
          <Nothing filter={filter} isPartial={isPartial} setFilter={setFilter} />
        ) : (
          <table className="cards" role="grid" aria-label="Runs" aria-rowcount={counts ? count : -1}>
            <Head
              isBeside={Boolean(panel)}
              isAll={isAll || (rows.length > 0 && selected.size === rows.length)}
              onChange={(wanted) => (wanted ? setSelected(new Set(rows.map((row) => row.id))) : clear())}
            />
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
                      isBeside={Boolean(panel)}
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
        <Keys />
      </div>
      {bulk.dialog}
    </section>
  );
}
