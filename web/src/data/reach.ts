/** How far a search of text has read, on the page of runs. */
import { useEffect, useRef, useState } from "react";

import { keep, kept } from "./back";
import { isTextSearch, type Reach, searchOlder } from "./older";
import { readQuery, useQueryOnce } from "./queries";
import { type Refused, refused } from "./request";
import { filterParams, type RunFilter } from "./runs";

const STEP = 50_000; // runs of one request

interface Further {
  reach: Reach;
  older: number;
}

export interface Searched {
  /** null: it is not known yet; undefined: everything is searched. */
  reach: Reach | null | undefined;
  /** The lowest run of the first search: newer ones are live. */
  first: string;
  /** The matches among older runs. */
  older: number;
  isSearching: boolean;
  error: Refused | null;
  search: () => void;
  stop: () => void;
}

/** How far the text of a filter is searched, and what searches further. */
export function useSearched(filter: RunFilter): Searched {
  const name = `reach ${filter.q}`;
  const isText = isTextSearch(filter);
  const start = useQueryOnce<Reach>("runs_reach", {}, { skip: !isText });
  const [further, setFurther] = useState(() => (kept(name) as Further | undefined) ?? null);
  const [isSearching, setSearching] = useState(false);
  const [error, setError] = useState<Refused | null>(null);
  const turn = useRef(0);
  useEffect(() => keep(name, further), [name, further]);
  useEffect(
    () => () => {
      turn.current += 1;
    },
    [],
  );
  const first = start.rows?.[0];
  const none: Reach | null = start.rows ? { oldest: "1", since: null, is_partial: false } : null;
  const reach = isText ? (further?.reach ?? first ?? none) : undefined;
  const search = () => {
    if (!reach || isSearching) return;
    const mine = (turn.current += 1);
    const before = further?.older ?? 0;
    setSearching(true);
    setError(null);
    searchOlder(reach, {
      reach: async (of) => (await readQuery<Reach>("runs_reach", { before: of, size: STEP }))[0],
      count: async (of, oldest) => {
        const sent = { ...filterParams({ ...filter, oldest }), before: of };
        return Number((await readQuery<{ count: string }>("runs_count", sent))[0]?.count ?? 0);
      },
      shown: (at, found) => setFurther({ reach: at, older: before + found }),
      isStopped: () => turn.current !== mine,
    })
      .catch((problem: unknown) => setError(refused(problem)))
      .finally(() => turn.current === mine && setSearching(false));
  };
  const stop = () => {
    turn.current += 1;
    setSearching(false);
  };
  return {
    reach,
    first: first?.oldest ?? "",
    older: further?.older ?? 0,
    isSearching,
    error: error ?? start.error,
    search,
    stop,
  };
}
