/** The one time zone of the page: chosen, else the one of this browser. */
import { useSyncExternalStore } from "react";

import { recall, remember } from "./local";

const own = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const watching = new Set<() => void>();
let chosen = valid(recall("zone")) ?? own;

function valid(zone: string | null): string | null {
  if (!zone) return null;
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return zone;
  } catch {
    return null;
  }
}

/** The zones that can be chosen: this browser's, the server's and UTC first. */
export function zones(server?: string): string[] {
  const all = typeof Intl.supportedValuesOf === "function" ? Intl.supportedValuesOf("timeZone") : [];
  return [...new Set([own, ...[valid(server ?? null)].filter((zone) => zone !== null), "UTC", ...all])];
}

export function chooseZone(zone: string): void {
  chosen = valid(zone) ?? own;
  remember("zone", chosen === own ? null : chosen);
  for (const each of watching) each();
}

export function currentZone(): string {
  return chosen;
}

export function useZone(): string {
  return useSyncExternalStore(
    (changed) => {
      watching.add(changed);
      return () => watching.delete(changed);
    },
    () => chosen,
  );
}
