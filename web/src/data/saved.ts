/** Saved filters: in this browser; to share one, copy the link of the list. */
import { useSyncExternalStore } from "react";

import { recall, remember } from "./local";
import type { SavedFilter } from "./runs";

const watching = new Set<() => void>();
let saved: readonly SavedFilter[] = read();

function read(): readonly SavedFilter[] {
  try {
    const found: unknown = JSON.parse(recall("filters") ?? "[]");
    return Array.isArray(found) ? found.filter((each): each is SavedFilter => typeof each?.name === "string" && typeof each.query === "string") : [];
  } catch {
    return [];
  }
}

function set(next: readonly SavedFilter[]): void {
  saved = next;
  remember("filters", JSON.stringify(saved));
  for (const each of watching) each();
}

export function saveFilter(filter: SavedFilter): void {
  set([...saved.filter((each) => each.name !== filter.name), filter]);
}

export function removeFilter(name: string): void {
  set(saved.filter((each) => each.name !== name));
}

export function useSavedFilters(): readonly SavedFilter[] {
  return useSyncExternalStore(
    (changed) => {
      watching.add(changed);
      return () => watching.delete(changed);
    },
    () => saved,
  );
}
