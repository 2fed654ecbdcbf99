/** Gaps: WAL that was lost, and what was chosen for the rows that changed in it. */
import { number } from "./format";

export interface GapChoice {
  attachment: string;
  choice: "skip" | "since" | "all" | "turns";
  column: string | null;
  rows: number | null;
  runs: number | null;
  undated: number | null;
}

export interface Gap {
  id: string;
  slot: string;
  from_lsn: string | null;
  to_lsn: string | null;
  bytes: string | null;
  /** Everything that committed before it is ingested. */
  since: string | null;
  reason: string;
  found_at: string;
  resolution: string | null;
  resolved_at: string | null;
  resolved_by: string | null;
  choices: GapChoice[];
}

/** What a choice did, as a sentence. */
export function chosen({ attachment, choice, column, rows, runs, undated }: GapChoice): string {
  if (choice === "skip") return `${attachment}: skipped, no runs`;
  if (choice === "all") return `${attachment}: a run for every row`;
  if (choice === "turns") return `${attachment}: turns where it had not answered`;
  const missing = undated ? `, ${number(undated)} without a time in ${column}` : "";
  return `${attachment}: ${number(runs ?? 0)} runs of ${number(rows ?? 0)} rows by ${column}${missing}`;
}
