/** State badges: a shape, a word and a color, always all three. */
import { Icon, type IconName } from "./icon";

type Tone = "ok" | "running" | "person" | "retry" | "failed" | "dead" | "idle";

interface Look {
  tone: Tone;
  icon: IconName;
  word: string;
  /** The word where a sentence has room for it. */
  long?: string;
}

/** By the state of a run, an attachment or an approval, as the database names it. */
const LOOKS: Record<string, Look> = {
  pending: { tone: "idle", icon: "s-pending", word: "pending" },
  running: { tone: "running", icon: "s-running", word: "running" },
  succeeded: { tone: "ok", icon: "s-ok", word: "succeeded" },
  waiting: { tone: "retry", icon: "s-retry", word: "retry", long: "waiting to retry" },
  retry: { tone: "retry", icon: "s-retry", word: "retry", long: "waiting to retry" },
  approval: { tone: "person", icon: "s-approval", word: "approval", long: "waiting for approval" },
  review: { tone: "person", icon: "s-review", word: "review", long: "outcome unknown" },
  question: { tone: "person", icon: "s-approval", word: "question", long: "waits for an answer" },
  failed: { tone: "failed", icon: "s-failed", word: "failed" },
  dead: { tone: "dead", icon: "s-dead", word: "dead" },
  cancelled: { tone: "idle", icon: "s-cancelled", word: "cancelled" },
  skipped: { tone: "idle", icon: "s-skipped", word: "skipped" },
  deferred: { tone: "idle", icon: "s-paused", word: "deferred" },
  // Approvals.
  asked: { tone: "person", icon: "s-approval", word: "waits" },
  approved: { tone: "ok", icon: "s-ok", word: "approved" },
  edited: { tone: "ok", icon: "s-ok", word: "edited, approved" },
  rejected: { tone: "failed", icon: "s-failed", word: "rejected" },
  expired: { tone: "idle", icon: "s-retry", word: "expired" },
  // Failures with the same reason.
  new: { tone: "failed", icon: "s-failed", word: "new" },
  ongoing: { tone: "failed", icon: "s-failed", word: "ongoing" },
  regressed: { tone: "dead", icon: "s-dead", word: "came back" },
  resolved: { tone: "ok", icon: "s-ok", word: "resolved" },
  muted: { tone: "idle", icon: "s-paused", word: "muted" },
  // Attachments and steps.
  active: { tone: "ok", icon: "s-ok", word: "active" },
  paused: { tone: "idle", icon: "s-paused", word: "paused" },
  broken: { tone: "person", icon: "s-paused", word: "broken", long: "broken attachment" },
  retired: { tone: "idle", icon: "s-cancelled", word: "retired" },
  committed: { tone: "ok", icon: "s-ok", word: "committed" },
  done: { tone: "ok", icon: "s-ok", word: "done" },
  healthy: { tone: "ok", icon: "s-ok", word: "Healthy" },
  unready: { tone: "failed", icon: "s-failed", word: "Not ready" },
  reading: { tone: "running", icon: "s-running", word: "reading" },
  unread: { tone: "idle", icon: "s-pending", word: "not read" },
  backfill: { tone: "running", icon: "s-running", word: "backfill" },
};

export function look(state: string): Look {
  return LOOKS[state] ?? { tone: "idle", icon: "s-pending", word: state.replaceAll("_", " ") };
}

/** A badge; `word` replaces the state's own, such as `backfill 40 %`. */
export function State({
  state,
  long = false,
  word,
  bare = false,
}: {
  state: string;
  long?: boolean;
  word?: string;
  bare?: boolean;
}) {
  const found = look(state);
  return (
    <span className={`st st-${found.tone}${bare ? " bare" : ""}`}>
      <Icon name={found.icon} />
      {word ?? (long ? (found.long ?? found.word) : found.word)}
    </span>
  );
}
