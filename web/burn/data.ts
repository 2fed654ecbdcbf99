/** What Burn's server says: who is signed in, rows that follow the database, and changes. */
import { electricCollectionOptions } from "@tanstack/electric-db-collection";
import { createCollection, useLiveQuery } from "@tanstack/react-db";

import { useMemo } from "react";

import { answered, unanswered } from "../src/data/connection";
import { Refused, request } from "../src/data/request";

const PATIENCE = 10_000; // milliseconds until rows that are late are not waited for

export interface User {
  id: string;
  name: string;
  type: "human" | "agent";
  avatar_url: string | null;
}

export interface Thread {
  id: string;
  name: string;
  inserted_at: string;
}

export interface Membership {
  id: string;
  role: string;
  thread_id: string;
  user_id: string;
}

export interface ThreadEvent {
  id: string;
  type: "system" | "text" | "tool_use" | "tool_result";
  data: Record<string, unknown>;
  thread_id: string;
  user_id: string;
  number: number;
  inserted_at: string;
}

export interface Fact {
  id: string;
  predicate: string;
  object: string;
  category: string;
  confidence: number;
  disputed: boolean;
  thread_id: string;
  subject_id: string;
  source_event_id: string | null;
  inserted_at: string;
}

export interface Process {
  id: string;
  thread_id: string;
  user_id: string;
  run: string | null;
  state: string;
  attempt: number | null;
  reason: string | null;
  started_at: string | null;
  next_attempt_at: string | null;
}

/** A member of the thread that is shown. */
export interface Member {
  user: User;
  membership: Membership;
}

/** The rows of all views, in one shape: each live shape holds one of the six connections of a browser. */
interface PageRow {
  view: keyof Views;
  id: string;
  row: object;
}

interface Views {
  users: User;
  threads: Thread;
  memberships: Membership;
  events: ThreadEvent;
  facts: Fact;
  processes: Process;
}

let whenSignedOut: (() => void) | undefined;

export function onSignedOut(then: () => void): void {
  whenSignedOut = then;
}

/** The fetch of the only shape, noted by the connection mark: nothing to send together. */
const noted: typeof fetch = async (input, init) => {
  try {
    const response = await fetch(input, { ...init, credentials: "same-origin" });
    if (response.status < 500) answered();
    else unanswered();
    return response;
  } catch (error) {
    if (!init?.signal?.aborted) unanswered();
    throw error;
  }
};

const options = electricCollectionOptions({
  id: "page",
  getKey: (row: object) => `${(row as PageRow).view} ${(row as PageRow).id}`,
  shapeOptions: {
    url: `${location.origin}/sync/page`,
    fetchClient: noted,
    onError: async (error: Error) => {
      if ((error as { status?: number }).status === 401) whenSignedOut?.();
      return new Promise((again) => setTimeout(() => again({}), 1_000));
    },
  },
});
const page = createCollection(options);

/** The row with times that say that they are in UTC. */
function utc(row: object): object {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, name.endsWith("_at") && value ? `${value}Z` : value]),
  );
}

/** The rows of a view, as they change. */
export function useRows<V extends keyof Views>(view: V): { rows: readonly Views[V][]; isLoading: boolean } {
  const { data, isLoading } = useLiveQuery(page);
  const rows = useMemo(
    () => (data as unknown as PageRow[]).filter((each) => each.view === view).map((each) => utc(each.row) as Views[V]),
    [data, view],
  );
  return { rows, isLoading };
}

export async function currentUser(): Promise<User | null> {
  try {
    return (await request<User | undefined>("GET", "auth/user")) ?? null;
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return null;
    throw error;
  }
}

export const signIn = (username: string, avatar_url: string | null) =>
  request<User>("POST", "auth/sign-in", { username, avatar_url });

export const signOut = () => request("POST", "auth/sign-out", {});

export interface Mutation {
  type: "insert" | "update" | "delete";
  relation: "threads" | "memberships" | "events";
  row: object;
  changes?: object;
}

/** Apply changes in one transaction, and wait until the rows have it. */
export async function ingest(...mutations: readonly Mutation[]): Promise<void> {
  const sent = mutations.map(({ type, relation, row, changes }) => ({
    type,
    syncMetadata: { relation: ["public", relation] },
    original: type === "insert" ? {} : row,
    modified: { ...row, ...changes },
    changes: changes ?? row,
  }));
  const { txid } = await request<{ txid: string }>("POST", "ingest/mutations", { mutations: sent });
  const utils = page.utils as unknown as { awaitTxId(id: number, timeout?: number): Promise<boolean> };
  await utils.awaitTxId(Number(txid), PATIENCE).catch(() => false);
}
