/** Declared mutations: one transaction each. */
import { isAway } from "./connection";
import { Refused, request } from "./request";
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
  // Sent into a lost connection, nobody could say whether it was done.
  if (isAway())
    throw new Refused(
      0,
      "Not sent: the page has no connection.",
      undefined,
      "Do it again when the connection is back.",
    );
  const done = await request<Mutated<T>>("POST", `v1/mutations/console.${name}`, args);
  if (shapes.length) await settled(done.txid, shapes);
  return done;
}
