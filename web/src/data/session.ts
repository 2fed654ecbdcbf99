/** Who is signed in. */
import { useSyncExternalStore } from "react";

import { Refused, request } from "./request";

export interface Session {
  principal: string;
  tenant: string;
  roles: string[];
  database: string;
  version: string;
  time_zone: string;
  /** Whether its token can be used to write in threads. */
  can_post?: boolean;
  server_version?: string;
  host?: string;
}

let session: Session | null = null;
const watching = new Set<() => void>();

function set(next: Session | null): void {
  session = next;
  for (const each of watching) each();
}

/** Read the session; null if nobody is signed in. */
export async function loadSession(): Promise<Session | null> {
  try {
    set(await request<Session>("GET", "v1/session"));
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 401) throw error;
    set(null);
  }
  return session;
}

/** Exchange a one-time code or a token for a cookie. */
export async function signIn(secret: { code: string } | { token: string }): Promise<void> {
  await request("POST", "v1/session", secret);
  await loadSession();
}

export async function signOut(): Promise<void> {
  await request("DELETE", "v1/session");
  set(null);
}

export function currentSession(): Session | null {
  return session;
}

export function useSession(): Session | null {
  return useSyncExternalStore(
    (changed) => {
      watching.add(changed);
      return () => watching.delete(changed);
    },
    () => session,
  );
}

/** Whether the one who is signed in has one of these roles; an admin has all. */
export function hasRole(held: readonly string[], ...wanted: string[]): boolean {
  return held.some((role) => role === "admin" || wanted.includes(role));
}
