/** Decisions about many calls, one after the other, so that a person can stop between two. */
import { toast, toastProblem } from "../parts/toast";
import { number } from "./format";
import { mutate } from "./mutate";
import { Refused } from "./request";
import type { ApprovalDetail } from "./approvals";
import { shape } from "./shapes";

export type Decision = "approve" | "reject";

const DONE: Record<Decision, string> = { approve: "Approved", reject: "Rejected" };

/** Decide about each call by the digest that was read; one that changed meanwhile is left out and named. */
export async function decideMany(decision: Decision, rows: readonly ApprovalDetail[], reason: string): Promise<void> {
  const asked = { toStop: false };
  const left: string[] = [];
  let done = 0;
  let close: (() => void) | undefined;
  try {
    for (const row of rows) {
      if (asked.toStop) break;
      close?.();
      close = toast(`${DONE[decision]} ${number(done)} of ${number(rows.length)} calls.`, {
        state: "running",
        stays: true,
        action: { label: "Stop", run: () => (asked.toStop = true) },
      });
      const args = { id: row.id, digest: row.digest, ...(decision === "reject" ? { reason } : {}) };
      // Only the last one is waited for on the page: its transaction comes after the others.
      const shown = row === rows.at(-1) ? [shape("approvals", (each) => String(each.id))] : [];
      try {
        await mutate(decision, args, shown);
        done += 1;
      } catch (error) {
        if (!(error instanceof Refused && error.status === 409)) throw error;
        left.push(row.run_id);
      }
    }
  } catch (error) {
    toastProblem(error);
  }
  close?.();
  const words = `${DONE[decision]} ${number(done)} ${done === 1 ? "call" : "calls"}${asked.toStop ? ", then stopped" : ""}.`;
  const others = left.length
    ? ` Decided by somebody else meanwhile: of ${left.length === 1 ? "run" : "runs"} ${left.join(", ")}.`
    : "";
  toast(words + others, { state: decision === "approve" ? "approved" : "rejected" });
}
