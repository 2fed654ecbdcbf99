/** Forks: which runs go on from a step of another one, and from which steps one can. */
import type { RunDetail, Step } from "./runs";

/** `forks`: the forks of a run, and the run itself if it is one; parameter: run. */
export interface Fork {
  id: string;
  fork_of: string;
  fork_step: number;
  state: string;
  created_at: string;
  by: string | null;
  /** What a person has changed: `prompt`, `arguments`. */
  changed: string[];
}

/** A place from which a run can go on: a reply, or a call with its arguments. */
export interface ForkPoint {
  step: number;
  /** Null: a reply. */
  args: string | null;
}

const ENDED = ["succeeded", "failed", "dead", "cancelled"];

/** Whether a run can be forked: what it says of the step, the server decides. */
export function canFork(run: Pick<RunDetail, "kind" | "state">): boolean {
  return run.kind === "agent" && ENDED.includes(run.state);
}

/** The step of a call that names it: undefined if none is recorded. */
export function stepOfCall(...steps: (Step | undefined)[]): number | undefined {
  return steps.find((step) => step !== undefined)?.seq;
}

/** What a note says of a fork; the empty text for another note. */
export function forkText(content: Record<string, unknown>): string {
  const of = content.fork as { run: number; step: number } | undefined;
  if (!of) return "";
  const by = typeof content.by === "string" ? `, asked for by ${content.by}` : "";
  const more = [
    typeof content.prompt === "string" ? `with the prompt: ${content.prompt}` : "",
    content.arguments ? "with other arguments of the call" : "",
  ].filter(Boolean);
  return `Goes on from step ${of.step} of run ${of.run}${by}${more.length ? `, ${more.join(", ")}` : ""}.`;
}
