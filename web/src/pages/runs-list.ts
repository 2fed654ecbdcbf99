import type { RunFilter } from "../data/runs";

/** The list that the page of a run came from, for its crumb and its keys `[` and `]`. */
export const lastList: { ids: readonly string[]; search: RunFilter; label: string } = {
  ids: [],
  search: {},
  label: "",
};

/** `row_now`: the newest content of a row that a run has seen. */
export interface RowSeen {
  row: Record<string, unknown> | null;
  run_id: string;
  op: string;
  committed_at: string;
}
