/** Runs that match, by time and state, as `console.runs_histogram` counts them. */
import type { RunState } from "./runs";

/** One part of the time, and the runs of one state in it. */
export interface Part {
  at: string;
  until: string;
  state: RunState;
  runs: number;
  /** Whether there are more runs than were counted. */
  is_least: boolean;
}

export interface Bar {
  at: string;
  until: string;
  failed: number;
  other: number;
}

const PARTS = 48;

/** The number of runs by state, the most frequent first. */
export function byState(parts: readonly Part[]): [state: RunState, runs: number][] {
  const counts = new Map<RunState, number>();
  for (const each of parts) counts.set(each.state, (counts.get(each.state) ?? 0) + each.runs);
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

/** All bars from the first run to the last part, also those without a run. */
export function bars(parts: readonly Part[], states: readonly string[]): Bar[] {
  const [first] = parts;
  if (!first) return [];
  const start = Date.parse(first.at);
  const size = Date.parse(first.until) - start;
  if (size <= 0) return [];
  const made = Array.from({ length: PARTS }, (_, i) => ({
    at: new Date(start + i * size).toISOString(),
    until: new Date(start + (i + 1) * size).toISOString(),
    failed: 0,
    other: 0,
  }));
  for (const each of parts) {
    const bar = made[Math.min(Math.round((Date.parse(each.at) - start) / size), PARTS - 1)];
    if (bar && (states.length === 0 || states.includes(each.state)))
      bar[["failed", "dead"].includes(each.state) ? "failed" : "other"] += each.runs;
  }
  return made;
}
