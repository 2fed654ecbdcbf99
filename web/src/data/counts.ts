/** The counts beside the navigation. */
import { useQueryOnce } from "./queries";

export interface NavCounts {
  runs: string | number;
  approvals: string | number;
  failed: string | number;
  agents: string | number;
  threads: string | number;
  tables: string | number;
}

export function useCounts(): NavCounts | null {
  return useQueryOnce<NavCounts>("counts", {}, { every: 10_000 }).rows?.[0] ?? null;
}
