/** The buttons of a group of failed runs. */
import { useState } from "react";

import { actOnMany } from "../data/bulk";
import { number } from "../data/format";
import { type RunFilter } from "../data/runs";
import { type FailureRow } from "../data/home";
import { useSession } from "../data/session";
import { hasRole } from "../data/session";
import { Confirm } from "../parts/confirm";

/** The runs of a group, and no others. */
export function groupFilter(row: FailureRow): RunFilter {
  const filter: RunFilter = {
    state: row.states ?? "failed,dead",
    reason: row.reason,
    sqlstate: row.sqlstate ?? "none",
  };
  if (row.agent) filter.agent = row.agent;
  if (row.ended) filter.ended = row.ended;
  return filter;
}

/** Whether the session may retry and cancel runs. */
export function useMayOperate(): boolean {
  return hasRole(useSession()?.roles ?? [], "approver");
}

export function RetryGroup({ row, again, long = false }: { row: FailureRow; again: () => void; long?: boolean }) {
  const [isAsking, ask] = useState(false);
  const mayOperate = useMayOperate();
  if (!mayOperate) return null;
  const runs = Number(row.runs);
  const what = `${number(runs)} ${runs === 1 ? "run" : "runs"}`;
  return (
    <>
      <button type="button" className="btn small" onClick={() => ask(true)}>
        {long ? (runs === 1 ? "Retry it…" : `Retry all ${number(runs)}…`) : `Retry ${number(runs)}…`}
      </button>
      {isAsking && (
        <ConfirmRetry
          title={`Retry ${what}${row.agent ? ` of ${row.agent}` : ""}?`}
          what={what}
          onClose={() => ask(false)}
          onConfirm={async () => {
            await actOnMany("retry", groupFilter(row), runs);
            again();
          }}
        />
      )}
    </>
  );
}

export function ConfirmRetry({
  title,
  what,
  onConfirm,
  onClose,
}: {
  title: string;
  what: string;
  onConfirm: () => Promise<void>;
  onClose: () => void;
}) {
  return (
    <Confirm title={title} action={`Retry ${what}`} keep="Keep as they are" onConfirm={onConfirm} onClose={onClose}>
      <p>
        They go on with the current version of the agent, from their last step. Steps that committed are not repeated.
        Model calls cost money again.
      </p>
    </Confirm>
  );
}
