/** A search of text in older and older runs: rows have no index of their words. */
import type { RunFilter } from "./runs";

const ENOUGH = 50; // matches that end a search of older runs

export interface Reach {
  /** The lowest number of a run that was searched. */
  oldest: string;
  since: string | null;
  /** Whether there are older runs, which were not searched. */
  is_partial: boolean;
}

interface Further {
  reach: (before: string) => Promise<Reach | undefined>;
  count: (before: string, oldest: string) => Promise<number>;
  /** After each step: how far it is, and how many matches it has found so far. */
  shown: (reach: Reach, found: number) => void;
  isStopped: () => boolean;
}

/** Whether a filter searches text; numbers are keys and runs, which have indexes. */
export function isTextSearch(filter: RunFilter): boolean {
  return Boolean(filter.q) && !/^[0-9]{1,18}$/.test(filter.q ?? "");
}

/** Search older runs step by step: until some are found, there are no more, or somebody stops it. */
export async function searchOlder(from: Reach, { reach, count, shown, isStopped }: Further): Promise<void> {
  let at = from;
  let found = 0;
  while (at.is_partial && found < ENOUGH && !isStopped()) {
    const next = (await reach(at.oldest)) ?? { ...at, is_partial: false };
    found += await count(at.oldest, next.oldest);
    if (isStopped()) return;
    at = next;
    shown(at, found);
  }
}
