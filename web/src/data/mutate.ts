/** Declared mutations: one transaction each. */
import { request } from "./request";
import { type Rows, settled } from "./shapes";

export interface Mutated<T> {
  txid: string;
  result: T;
}

/**
 * Run `console.NAME`, and wait until the rows that are shown have its transaction.
 *
 * Throws `Refused`: 409 if another person was first.
 */
export async function mutate<T = unknown>(
  name: string,
  args: object,
  shapes: readonly Rows[] = [],
): Promise<Mutated<T>> {
  const done = await request<Mutated<T>>("POST", `v1/mutations/console.${name}`, args);
  if (shapes.length) await settled(done.txid, shapes);
  return done;
}
