/** Named queries that are read once: pages of lists, details, figures. */
import { useCallback, useEffect, useEffectEvent, useState } from "react";

import { noteClock } from "./clock";
import { type Refused, refused, request } from "./request";

export type Params = Readonly<Record<string, string | number | null | undefined>>;

interface Answer<T> {
  rows: T[];
  now: string;
}

/** Read `console.NAME` once. */
export async function readQuery<T>(name: string, params: Params = {}): Promise<T[]> {
  const sent = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) sent.set(key, value == null ? "" : String(value));
  const answer = await request<Answer<T>>("GET", `v1/queries/console.${name}?${sent}`);
  noteClock(answer.now);
  return answer.rows;
}

const starting = new Map<string, Promise<unknown[]>>();

/** Read `console.NAME` once for all parts of a page that want it in the same moment. */
function readTogether<T>(id: string, name: string, params: Params): Promise<T[]> {
  const found = starting.get(id);
  if (found) return found as Promise<T[]>;
  const reading = readQuery<T>(name, params);
  starting.set(id, reading);
  setTimeout(() => starting.delete(id));
  return reading;
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
 * Rows of the former parameters stay until the new ones are there.
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
  const read = useEffectEvent(() => readTogether<T>(id, name, params));

  useEffect(() => {
    if (skip) return;
    let stopped = false;
    setLoading(true);
    read()
      .then((found) => {
        if (stopped) return;
        setRows(found);
        setError(null);
        setLoading(false);
      })
      .catch((problem: unknown) => {
        if (stopped) return;
        setError(refused(problem));
        setLoading(false);
      });
    return () => {
      stopped = true;
    };
  }, [id, name, turn, skip]);

  useEffect(() => {
    if (!every || skip) return;
    const timer = setInterval(() => document.visibilityState === "visible" && setTurn((n) => n + 1), every);
    return () => clearInterval(timer);
  }, [every, skip]);

  return { rows, error, isLoading, again: useCallback(() => setTurn((n) => n + 1), []) };
}
