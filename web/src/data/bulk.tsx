/** Actions on many runs: the server does a batch at a time, so that a person can stop between two. */
import { number } from "./format";
import { mutate } from "./mutate";
import { filterParams, type Search } from "./runs";
import { toast, toastProblem } from "../parts/toast";

export type BulkAction = "retry" | "cancel";

const DOING: Record<BulkAction, string> = { retry: "Retrying", cancel: "Cancelling" };
const DONE: Record<BulkAction, string> = { retry: "queued", cancel: "cancelled" };

interface Batch {
  done: string | number;
  /** The last run that was looked at; null: there are no more. */
  last: string | null;
}

/** Act on the runs with these IDs, or on all that match. */
export async function actOnMany(
  action: BulkAction,
  runs: readonly string[] | Search,
  total: number,
  reason = "",
): Promise<void> {
  const asked = { toStop: false };
  let done = 0;
  let close: (() => void) | undefined;
  const show = () => {
    close?.();
    close = toast(
      <>
        {DOING[action]} {number(total)} runs: {number(done)} {DONE[action]}
      </>,
      { state: "running", stays: true, action: { label: "Stop", run: () => (asked.toStop = true) } },
    );
  };
  if (total > 100) show();
  try {
    if (isList(runs)) {
      for (let at = 0; at < runs.length && !asked.toStop; at += 500) {
        const { result } = await mutate<Batch>(`${action}_runs`, { runs: runs.slice(at, at + 500), reason });
        done += Number(result.done);
        if (total > 100) show();
      }
    } else {
      let before: string | null = "";
      while (before !== null && !asked.toStop) {
        const sent: { result: Batch } = await mutate<Batch>(`${action}_matching`, {
          ...filterParams(runs),
          before,
          reason,
        });
        done += Number(sent.result.done);
        before = sent.result.last;
        if (total > 100) show();
      }
    }
    close?.();
    toast(`${number(done)} ${done === 1 ? "run" : "runs"} ${DONE[action]}${asked.toStop ? ", then stopped" : ""}.`);
  } catch (error) {
    close?.();
    toastProblem(error);
  }
}

function isList(runs: readonly string[] | Search): runs is readonly string[] {
  return Array.isArray(runs);
}
