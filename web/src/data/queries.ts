/** Named queries that are read once: pages of lists, details, figures. */
import { useCallback, useEffect, useEffectEvent, useState } from "react";

import { noteClock } from "./clock";
import { poll } from "./poll";
import { type Refused, refused, request } from "./request";

export type Params = Readonly<Record<string, string | number | null | undefined>>;

interface Answer<T> {
  rows: T[];
  now: string;
}

/** Read `console.NAME` once. */
export async function readQuery<T>(name: string, params: Params = {}, signal?: AbortSignal): Promise<T[]> {
  const sent = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) sent.set(key, value == null ? "" : String(value));
  const answer = await request<Answer<T>>("GET", `v1/queries/console.${name}?${sent}`, undefined, signal);
  noteClock(answer.now);
  return answer.rows;
}

interface Reading {
  answer: Promise<unknown[]>;
  stop: AbortController;
  readers: number;
}

const starting = new Map<string, Reading>();

function start(id: string, name: string, params: Params): Reading {
  const stop = new AbortController();
  const reading = { answer: readQuery(name, params, stop.signal), stop, readers: 0 };
  starting.set(id, reading);
  setTimeout(() => starting.delete(id));
  return reading;
}

/**
 * Read `console.NAME` once for all parts of a page that want it in the same moment.
 *
 * The request is cancelled when none of them wants it any more.
 */
function readTogether<T>(id: string, name: string, params: Params, signal: AbortSignal): Promise<T[]> {
  const reading = starting.get(id) ?? start(id, name, params);
  reading.readers += 1;
  signal.addEventListener("abort", () => --reading.readers === 0 && reading.stop.abort());
  return reading.answer as Promise<T[]>;
}

export interface Once<T> {
  rows: readonly T[] | null;
  error: Refused | null;
  isLoading: boolean;
  again: () => void;
}

/**
 * Read `console.NAME` once, and again when the parameters change.
 *
 * Rows of the former parameters stay until the new ones are there, and the last ones while reading
 * them again fails.
 */
export function useQueryOnce<T>(
  name: string,
  params: Params = {},
  options: { every?: number; skip?: boolean } = {},
): Once<T> {
  const [rows, setRows] = useState<readonly T[] | null>(null);
  const [error, setError] = useState<Refused | null>(null);
  const [isLoading, setLoading] = useState(!options.skip);
  const [turn, setTurn] = useState(0);
  const id = `${name}?${JSON.stringify(params)}`;
  const { every, skip = false } = options;
  const read = useEffectEvent((signal: AbortSignal) => readTogether<T>(id, name, params, signal));

  useEffect(() => {
    if (skip) return;
    setLoading(true);
    return poll<T[]>({
      read,
      every,
      shown: (found) => {
        setRows(found);
        setError(null);
        setLoading(false);
      },
      failed: (problem) => {
        setError(refused(problem));
        setLoading(false);
      },
    });
  }, [id, name, turn, every, skip]);

  return { rows, error, isLoading, again: useCallback(() => setTurn((n) => n + 1), []) };
}
