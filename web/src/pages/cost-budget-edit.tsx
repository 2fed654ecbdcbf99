/** Change a budget: its limits, its window, what happens at the limit; or remove it. */
import { type SubmitEvent, useId, useState } from "react";

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
import { type Refused, refused } from "../data/request";
import { Dialog } from "../parts/confirm";
import { Notice } from "../parts/notice";
import { toast } from "../parts/toast";
import { BudgetFields } from "./cost-budget-fields";

interface EditProps {
  row: Budget;
  again: () => void;
  onClose: () => void;
}

export function EditBudget({ row, again, onClose }: EditProps) {
  const form = useId();
  // What is typed is about the budget as it was read: somebody else's change is refused, not lost.
  const [read] = useState(row);
  const [draft, setDraft] = useState(draftOf(read));
  const [error, setError] = useState<Refused | null>(null);
  const [isSending, setSending] = useState(false);
  const [isSure, sure] = useState(false);
  const change = (part: Partial<BudgetDraft>) => setDraft({ ...draft, ...part });
  const wrong = wrongDraft(draft);
  const send = async (name: string, values: object, said: string) => {
    setSending(true);
    try {
      await mutate(name, { name: read.name, base: read.version, ...values });
      toast(said);
      again();
      onClose();
    } catch (problem) {
      setError(refused(problem));
      setSending(false);
      again();
    }
  };
  const save = (event: SubmitEvent) => {
    event.preventDefault();
    const next = { ...read, ...draft, max_cost: draft.max_cost || null, max_tokens: draft.max_tokens || null };
    void send("change_budget", draft, `${read.name} is ${limitOf(next)} now. ${consequence(row, draft)}`);
  };
  const remove = () => send("remove_budget", {}, `Removed ${read.name}: what waited for it is tried again.`);
  return (
    <Dialog
      title={`Change ${read.name}`}
      className="edit"
      onClose={onClose}
      foot={
        <>
          <button
            type="submit"
            form={form}
            className="btn primary"
            disabled={isSending || wrong !== undefined || !isChanged(read, draft)}
          >
            {isSending ? "Sending" : "Change the budget"}
          </button>
          <button type="button" className="btn quiet" onClick={onClose}>
            Keep {limitOf(read)}
          </button>
          {isSure ? (
            <button type="button" className="btn danger end" disabled={isSending} onClick={() => void remove()}>
              Remove it
            </button>
          ) : (
            <button type="button" className="btn quiet end" onClick={() => sure(true)}>
              Remove…
            </button>
          )}
        </>
      }
    >
      <form className="body" id={form} onSubmit={save}>
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
        {isSure && <p role="status">What it has counted is removed with it. No run waits for it any more.</p>}
        {read.of_file && (
          <Notice tone="info">
            agents.yaml has this budget: the next <code>walagent apply</code> sets it back. Change the file as well.
          </Notice>
        )}
        {error && (
          <p className="wrong" role="alert">
            {error.status === 404
              ? "Somebody has changed or removed it meanwhile. Close this, and read it again."
              : `${error.message}. ${error.hint ?? ""}`}
          </p>
        )}
      </form>
    </Dialog>
  );
}
