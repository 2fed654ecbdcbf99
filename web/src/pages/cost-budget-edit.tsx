/** Change a budget: its limits, its window, what happens at the limit. */
import { type SubmitEvent, useId, useState } from "react";

import {
  type Budget,
  type BudgetDraft,
  consequence,
  draftOf,
  EXCEEDED,
  isChanged,
  left,
  limitOf,
  PERIODS,
  raised,
  wrongDraft,
} from "../data/budgets";
import { mutate } from "../data/mutate";
import { type Refused, refused } from "../data/request";
import { Dialog } from "../parts/confirm";
import { Notice } from "../parts/notice";
import { toast } from "../parts/toast";

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
  const change = (part: Partial<BudgetDraft>) => setDraft({ ...draft, ...part });
  const wrong = wrongDraft(draft);
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    setSending(true);
    try {
      await mutate("change_budget", { name: read.name, base: read.version, ...draft });
      const next = { ...read, ...draft, max_cost: draft.max_cost || null, max_tokens: draft.max_tokens || null };
      toast(`${read.name} is ${limitOf(next)} now. ${consequence(row, draft)}`);
      again();
      onClose();
    } catch (problem) {
      setError(refused(problem));
      setSending(false);
      again();
    }
  };
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
        </>
      }
    >
      <form className="body" id={form} onSubmit={save}>
        <Limit label="US dollars; empty: no limit" value={draft.max_cost} set={(max_cost) => change({ max_cost })} />
        <Limit label="Tokens; empty: no limit" value={draft.max_tokens} set={(max_tokens) => change({ max_tokens })} />
        <label className="field">
          Window
          <select
            value={draft.period}
            onChange={(event) => change({ period: event.target.value as BudgetDraft["period"] })}
          >
            {Object.entries(PERIODS).map(([period, name]) => (
              <option key={period} value={period}>
                {name}
              </option>
            ))}
          </select>
          {draft.period !== "total" && <span className="muted">Days and months are in UTC.</span>}
        </label>
        <label className="field">
          When it is reached
          <select
            value={draft.on_exceeded}
            onChange={(event) => change({ on_exceeded: event.target.value as BudgetDraft["on_exceeded"] })}
          >
            {Object.entries(EXCEEDED).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
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

function Limit({ label, value, set }: { label: string; value: string; set: (value: string) => void }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <div className="row">
        <input
          id={id}
          type="text"
          inputMode="decimal"
          autoComplete="off"
          value={value}
          onChange={(event) => set(event.target.value.trim())}
        />
        {value !== "" && raised(value) !== value && (
          <button type="button" className="btn" onClick={() => set(raised(value))}>
            Raise to {raised(value)}
          </button>
        )}
      </div>
    </div>
  );
}
