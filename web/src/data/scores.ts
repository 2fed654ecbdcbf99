/** Runs that a person should score, and what people say of runs. */
import { mutate } from "./mutate";

/** `unscored`: one page, the latest first; parameters as of `changes`. */
export interface Unscored {
  run_id: string;
  /** Where it is in the list: `before` of the next page. */
  place: string;
  agent: string | null;
  version: number | null;
  reasons: string[];
  finished_at: string;
  relation: string | null;
  key: string | null;
  title: string | null;
  /** What its calls did, or what it answered. */
  what: string | null;
}

/** `scores`: the latest first; parameter: run. */
export interface Score {
  principal: string;
  /** From -1, wrong, to 1, right. */
  value: number;
  comment: string | null;
  scored_at: string;
}

export type Answer = "right" | "wrong" | "unsure";

export const VALUES: Record<Answer, number> = { right: 1, unsure: 0, wrong: -1 };

export async function score(run: string, answer: Answer, comment = ""): Promise<void> {
  await mutate("score", { run, value: VALUES[answer], comment });
}

/** The answer of a score, and the number where it is another than that of a button. */
export function answerOf(value: number): { state: string; word: string } {
  const word = value > 0 ? "right" : value < 0 ? "wrong" : "not sure";
  const state = value > 0 ? "done" : value < 0 ? "failed" : "skipped";
  return { state, word: [-1, 0, 1].includes(value) ? word : `${word} (${value})` };
}

const REASONS: Record<string, string> = {
  corrected: "changed later",
  shadow_differs: "a shadow did something else",
  mistakes: "replies went back to the model",
  fell_back: "another model answered",
  near_limit: "near a limit",
  sample: "of the sample",
};

/** Why a run is listed, in words; a reason that the page does not know is shown as it is. */
export const reasonOf = (reason: string): string => REASONS[reason] ?? reason.replaceAll("_", " ");
