/** Whether the page follows the database; written by every request, shown by the frame. */
import { useSyncExternalStore } from "react";

import { at } from "./base";

export type Connection =
  { state: "live" } | { state: "reconnecting"; since: number } | { state: "caught-up"; since: number };

/** Milliseconds of silence before the page says so. */
export const GRACE = 3_000;
const SHOWN = 4_000;
const PAUSE = 2_000; // until the server is asked whether it is back: a live request would wait for news

let current: Connection = { state: "live" };
let lastAnswer = Date.now();
const watching = new Set<() => void>();

function set(next: Connection): void {
  current = next;
  for (const each of watching) each();
}

/** The server answered. */
export function answered(): void {
  lastAnswer = Date.now();
  if (current.state !== "reconnecting") return;
  if (lasted(current) < GRACE) return set({ state: "live" });
  const back: Connection = { state: "caught-up", since: Date.now() };
  set(back);
  setTimeout(() => current === back && set({ state: "live" }), SHOWN);
}

/** A request got no answer. */
export function unanswered(): void {
  if (current.state === "reconnecting") return;
  set({ state: "reconnecting", since: lastAnswer });
  setTimeout(ask, PAUSE);
}

async function ask(): Promise<void> {
  if (current.state !== "reconnecting") return;
  const response = await fetch(at("v1/session"), { credentials: "same-origin", cache: "no-store" }).catch(
    () => undefined,
  );
  if (response && response.status < 500) answered();
  else setTimeout(ask, PAUSE);
}

function watch(changed: () => void): () => void {
  watching.add(changed);
  return () => watching.delete(changed);
}

export function useConnection(): Connection {
  return useSyncExternalStore(watch, () => current);
}

/** Milliseconds since a change of state. */
export function lasted(connection: { since: number }): number {
  return Date.now() - connection.since;
}

/** Whether the page says that it has no connection: one lost request is no reason to hold an action. */
export function isAway(): boolean {
  return current.state === "reconnecting" && lasted(current) >= GRACE;
}
