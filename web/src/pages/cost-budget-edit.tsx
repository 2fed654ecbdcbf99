/** Change a budget: its limits, its window, what happens at the limit; or remove it. */
import { useState } from "react";

import {
  type Budget,
  type BudgetDraft,
  consequence,
  draftOf,
  isChanged,
  left,
  limitOf,
  wrongDraft,
} from "../data/budgets";
import { mutate } from "../data/mutate";
import { FormDialog } from "../parts/form-dialog";
import { Notice } from "../parts/notice";
import { toast } from "../parts/toast";
import { BudgetFields } from "./cost-budget-fields";

interface EditProps {
  row: Budget;
  again: () => void;
  onClose: () => void;
}

export function EditBudget({ row, again, onClose }: EditProps) {
  // What is typed is about the budget as it was read: somebody else's change is refused, not lost.
  const [read] = useState(row);
  const [draft, setDraft] = useState(draftOf(read));
  const change = (part: Partial<BudgetDraft>) => setDraft({ ...draft, ...part });
  const wrong = wrongDraft(draft);
  const send = async (name: string, values: object, said: string) => {
    await mutate(name, { name: read.name, base: read.version, ...values });
    toast(said);
  };
  const save = () => {
    const next = { ...read, ...draft, max_cost: draft.max_cost || null, max_tokens: draft.max_tokens || null };
    return send("change_budget", draft, `${read.name} is ${limitOf(next)} now. ${consequence(row, draft)}`);
  };
  return (
    <FormDialog
      title={`Change ${read.name}`}
      action="Change the budget"
      keep={`Keep ${limitOf(read)}`}
      isReady={wrong === undefined && isChanged(read, draft)}
      send={save}
      again={again}
      onClose={onClose}
      gone="Somebody has changed or removed it meanwhile"
      removal={{
        warning: "What it has counted is removed with it. No run waits for it any more.",
        send: () => send("remove_budget", {}, `Removed ${read.name}: what waited for it is tried again.`),
      }}
    >
      <BudgetFields draft={draft} change={change} isRead />
      {wrong ? (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      ) : (
        isChanged(read, draft) && (
          <p role="status">
            {draft.period === read.period
              ? `${left(row, draft).text}. `
              : "What counts is what is spent in the new window, as far as it is known. "}
            {consequence(row, draft)}
          </p>
        )
      )}
      {read.of_file && (
        <Notice tone="info">
          agents.yaml has this budget: the next <code>walagent apply</code> sets it back. Change the file as well.
        </Notice>
      )}
    </FormDialog>
  );
}
