/** The rows of the list of runs: pages by key, kept as they are now. */
import { useCallback, useEffect, useEffectEvent, useMemo, useRef, useState } from "react";

import { keep, kept } from "./back";
import { readQuery, useQueryOnce } from "./queries";
import { type Refused, refused } from "./request";
import type { Searched } from "./reach";
import { filterParams, type RunFilter, type RunRow, useRuns } from "./runs";

const PAGE = 200;
const LIVE = 100;

const LOOK = 5_000; // milliseconds between two looks at rows that no shape follows

/** What Back comes back to. */
interface Loaded {
  loaded: readonly RunRow[] | null;
  end: string | null;
  later: Map<string, RunRow>;
}

/**
 * The loaded rows, with what the live shape of the newest ones says; of others, what they are now.
 *
 * @param seen IDs of those on screen: a row that is older, or has left the filter, is in no shape.
 */
export function useRunList(filter: RunFilter, searched: Searched, seen: readonly string[]) {
  const name = `runs ${JSON.stringify(filter)}`;
  const [before] = useState(() => kept(name) as Loaded | undefined);
  const [loaded, setLoaded] = useState<readonly RunRow[] | null>(before?.loaded ?? null);
  const [error, setError] = useState<Refused | null>(null);
  const [isLoadingMore, setLoadingMore] = useState(false);
  const [end, setEnd] = useState(before?.end ?? null); // the oldest run that was searched when there were no more
  const isBusy = useRef(false);
  const { first, reach } = searched;
  const isKnown = reach !== null;
  const oldest = reach?.oldest ?? "";
  const live = useRuns(isKnown ? { ...filter, oldest: first } : null, LIVE);

  const read = useCallback(
    async (from: string) => {
      if (isBusy.current) return;
      isBusy.current = true;
      setLoadingMore(from !== "");
      try {
        const sent = { ...filterParams({ ...filter, oldest }), before: from, limit: PAGE };
        const found = await readQuery<RunRow>("runs", sent);
        setLoaded((old) => (from ? [...(old ?? []), ...found] : found));
        setEnd(found.length < PAGE ? oldest : null);
        setError(null);
      } catch (problem) {
        setError(refused(problem));
      }
      setLoadingMore(false);
      isBusy.current = false;
    },
    [filter, oldest],
  );
  const isEnd = end === oldest;
  const last = end ?? "";
  const more = () => loaded && !isEnd && void read(loaded.at(-1)?.id ?? last);
  const start = useEffectEvent(() => void (!loaded ? read("") : end !== null && more()));
  // Read the first page, and on where a search has gone further.
  useEffect(() => {
    if (isKnown) start();
  }, [isKnown, oldest]);

  const byId = useMemo(() => new Map(live.rows.map((row) => [row.id, row])), [live.rows]);
  const fresh = useMemo(() => {
    const newest = Number(loaded?.[0]?.id ?? 0);
    if (!loaded || live.isLoading) return [];
    return live.rows.filter((row) => Number(row.id) > newest).sort((a, b) => Number(b.id) - Number(a.id));
  }, [loaded, live.rows, live.isLoading]);
  // Of the rows that the shape would have, those that it no longer has do not match any more.
  const lowest = useMemo(
    () => (live.rows.length < LIVE ? Number(first) : Math.min(...live.rows.map((row) => Number(row.id)))),
    [live.rows, first],
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
  const [later, setLater] = useState(before?.later ?? new Map<string, RunRow>());
  useEffect(() => {
    if (now.rows?.length)
      setLater((old) => new Map([...old, ...(now.rows ?? []).map((row) => [row.id, row] as const)]));
  }, [now.rows]);
  useEffect(() => keep(name, { loaded, end, later } satisfies Loaded), [name, loaded, end, later]);
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
    more,
    again: () => void read(""),
    look: now.again,
  };
}
