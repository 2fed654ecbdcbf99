/** Saved filters of the list of runs: rows, for all who see the runs. */
import { useMemo } from "react";

import { mutate } from "./mutate";
import { shape, useShape } from "./shapes";

export interface SavedFilter {
  name: string;
  /** As in the address: `state=failed&agent=triage`. */
  query: string;
  saved_by: string;
  is_mine: boolean;
  is_removable: boolean;
}

const nameOf = (filter: { name: string }) => filter.name;
const shown = () => [shape("saved_filters", (row) => String(row.name))];

export function useSavedFilters(): readonly SavedFilter[] {
  const { rows } = useShape<SavedFilter>("saved_filters", nameOf);
  return useMemo(() => rows.toSorted((a, b) => a.name.localeCompare(b.name)), [rows]);
}

export const saveFilter = ({ name, query }: { name: string; query: string }) =>
  mutate("save_filter", { name, query }, shown());

export const removeFilter = (name: string) => mutate("remove_filter", { name }, shown());
