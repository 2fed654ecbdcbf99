/** Lists that are read in pages, newest first: on from the last row, until a page is not full. */
import { useCallback, useEffect, useEffectEvent, useRef, useState } from "react";

import { type Params, readQuery } from "./queries";
import { type Refused, refused } from "./request";

interface Paged<T> {
  rows: readonly T[];
  /** Whether the first page was not read yet. */
  isLoading: boolean;
  isLoadingMore: boolean;
  error: Refused | null;
  /** Whether there are no more. */
  isEnd: boolean;
  more: () => void;
}

/** Read pages of `console.NAME`; *first* is what a live shape has of the first page. */
export function usePages<T>(
  name: string,
  params: Params,
  {
    limit,
    before,
    first,
    skip = false,
  }: { limit: number; before: (row: T) => string; first?: readonly T[]; skip?: boolean },
): Paged<T> {
  const [loaded, setLoaded] = useState<{ of: string; rows: readonly T[]; isEnd: boolean } | null>(null);
  const [isLoadingMore, setLoadingMore] = useState(false);
  const [error, setError] = useState<Refused | null>(null);
  const isBusy = useRef(false);
  const of = `${name}?${JSON.stringify(params)}`;
  const mine = loaded?.of === of ? loaded : null;
  const rows = first ? [...first, ...(mine?.rows ?? [])] : (mine?.rows ?? []);
  const isEnd = mine ? mine.isEnd : first !== undefined && first.length < limit;
  const read = async () => {
    if (isBusy.current || isEnd) return;
    const last = rows.at(-1);
    isBusy.current = true;
    setLoadingMore(last !== undefined);
    try {
      const found = await readQuery<T>(name, { ...params, before: last === undefined ? "" : before(last), limit });
      setLoaded((old) => ({
        of,
        rows: [...(old?.of === of ? old.rows : []), ...found],
        isEnd: found.length < limit,
      }));
      setError(null);
    } catch (problem) {
      setError(refused(problem));
    }
    isBusy.current = false;
    setLoadingMore(false);
  };
  const start = useEffectEvent(() => void read());
  const isLive = first !== undefined;
  useEffect(() => {
    if (!skip && !isLive) start();
  }, [of, skip, isLive]);
  const latest = useRef(read);
  useEffect(() => {
    latest.current = read;
  });
  const more = useCallback(() => void latest.current(), []);
  return { rows, isLoading: !isLive && mine === null && !error, isLoadingMore, error, isEnd, more };
}
