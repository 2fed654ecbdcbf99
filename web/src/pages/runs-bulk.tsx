/** Actions on many runs of the list. */
import { useState } from "react";

import { actOnMany, type BulkAction } from "../data/bulk";
import { number } from "../data/format";
import { isOpen, type RunRow, type Search } from "../data/runs";
import { Confirm } from "../parts/confirm";
import { Icon } from "../parts/icon";
import { ConfirmRetry, useMayOperate } from "./failed-group";

/** Retry and cancel: of the selection, else of the row under the cursor. */
export function useBulk(
  search: Search,
  rows: readonly RunRow[],
  selected: ReadonlySet<string>,
  isAll: boolean,
  total: number,
  cursor: string | null,
  clear: () => void,
) {
  const [asked, setAsked] = useState<BulkAction | null>(null);
  const mayOperate = useMayOperate();
  const chosen = selected.size ? rows.filter((row) => selected.has(row.id)) : rows.filter((row) => row.id === cursor);
  const of = {
    retry: chosen.filter((row) => ["failed", "dead", "cancelled"].includes(row.state)),
    cancel: chosen.filter((row) => isOpen(row.state)),
  };
  const amount = (action: BulkAction) => (isAll ? total : of[action].length);
  const ask = (action: BulkAction) => (mayOperate && amount(action) > 0 ? setAsked(action) : false);
  const go = (action: BulkAction) => async () => {
    await actOnMany(action, isAll ? search : of[action].map((row) => row.id), amount(action));
    clear();
  };
  const words = (action: BulkAction) =>
    `${isAll ? "" : number(amount(action))}${isAll ? `up to ${number(total)}` : ""} ${amount(action) === 1 ? "run" : "runs"}`;
  const dialog =
    asked === "retry" ? (
      <ConfirmRetry
        title={`Retry ${words("retry")}?`}
        what={words("retry")}
        onConfirm={go("retry")}
        onClose={() => setAsked(null)}
      />
    ) : asked === "cancel" ? (
      <Confirm
        title={`Cancel ${words("cancel")}?`}
        action={`Cancel ${words("cancel")}`}
        keep="Keep as they are"
        danger
        onConfirm={go("cancel")}
        onClose={() => setAsked(null)}
      >
        <p>They end after the step that is being executed. What they have committed stays.</p>
      </Confirm>
    ) : null;
  const buttons = mayOperate && (
    <>
      <button type="button" className="btn small" disabled={amount("retry") === 0} onClick={() => ask("retry")}>
        <Icon name="retry" small />
        Retry {number(amount("retry"))}…
      </button>
      <button type="button" className="btn small" disabled={amount("cancel") === 0} onClick={() => ask("cancel")}>
        <Icon name="x" small />
        Cancel {number(amount("cancel"))}…
      </button>
    </>
  );
  return { ask, buttons, dialog };
}
