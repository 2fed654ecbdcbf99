/** Live rows: one Electric collection for each named query and its parameters. */
import { electricCollectionOptions } from "@tanstack/electric-db-collection";
import { createCollection, localOnlyCollectionOptions, useLiveQuery } from "@tanstack/react-db";

import { at } from "./base";
import { exactly } from "./exact";
import { shapeFetch } from "./fetch";
import { endSession } from "./request";

export type Row = Record<string, unknown>;
type Params = Readonly<Record<string, string>>;

/** As in answers of /v1/queries: what a JavaScript number cannot hold is text. */
const parser = { int8: (text: string) => text, numeric: (text: string) => text, jsonb: exactly, timestamptz: instant };

/** From PostgreSQL's text to ISO 8601: 2026-11-22 09:01:12.408+01 is no date for all browsers. */
function instant(text: string): string {
  return text.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00");
}

/** The rows of one shape. */
export type Rows = ReturnType<typeof made>;

function made(id: string, name: string, getKey: (row: Row) => string, params: Params) {
  return createCollection(
    electricCollectionOptions({
      id,
      getKey,
      gcTime: 30_000,
      shapeOptions: {
        url: at(`v1/shapes/console.${name}`),
        params: { ...params } as Record<string, never>, // any name that is not a word of the protocol
        parser,
        fetchClient: shapeFetch,
        backoffOptions: { initialDelay: 200, maxDelay: 4_000, multiplier: 1.5 },
        onError: async (error) => {
          const status = (error as { status?: number }).status;
          if (status === 401) return endSession();
          if (status === 400 || status === 403 || status === 404) return;
          return new Promise((again) => setTimeout(() => again({}), 1_000));
        },
      },
    }),
  );
}

const collections = new Map<string, Rows>();

/** Of a shape whose parameters are not known yet. */
const nothing = createCollection(localOnlyCollectionOptions({ id: "nothing", getKey: String })) as unknown as Rows;

/** The collection of `console.NAME`; the same one for the same parameters. */
export function shape(name: string, key: (row: Row) => string, params: Params = {}): Rows {
  const id = `${name}?${new URLSearchParams(params)}`;
  const found = collections.get(id) ?? made(id, name, key, params);
  collections.set(id, found);
  return found;
}

export interface Live<T> {
  rows: readonly T[];
  isLoading: boolean;
  isError: boolean;
}

/** The rows of `console.NAME`, as they change; none while the parameters are not known. */
export function useShape<T extends object>(name: string, key: (row: T) => string, params: Params | null = {}): Live<T> {
  const collection = params ? shape(name, key as unknown as (row: Row) => string, params) : nothing;
  const { data, isLoading, isError } = useLiveQuery(collection);
  return { rows: data as unknown as T[], isLoading: isLoading || !params, isError };
}

/** Forget all rows, such as after signing out. */
export function forgetShapes(): void {
  for (const each of collections.values()) void each.cleanup();
  collections.clear();
}

/** Resolve when the transaction has arrived in a shape that is shown. */
export async function settled(txid: string, shapes: readonly Rows[], timeout = 5_000): Promise<void> {
  const waits = shapes.map((each) => each.utils.awaitTxId(Number(txid), timeout));
  await Promise.allSettled(waits);
}
