/** The limits of a budget, its window, and what happens at the limit, as fields of a form. */
import { useId } from "react";

import { type BudgetDraft, EXCEEDED, PERIODS, raised } from "../data/budgets";

interface FieldsProps {
  draft: BudgetDraft;
  change: (part: Partial<BudgetDraft>) => void;
  /** Whether there is a limit that could be raised. */
  isRead?: boolean;
}

export function BudgetFields({ draft, change, isRead = false }: FieldsProps) {
  return (
    <>
      <Limit
        isRead={isRead}
        label="US dollars; empty: no limit"
        value={draft.max_cost}
        set={(max_cost) => change({ max_cost })}
      />
      <Limit
        isRead={isRead}
        label="Tokens; empty: no limit"
        value={draft.max_tokens}
        set={(max_tokens) => change({ max_tokens })}
      />
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
    </>
  );
}

function Limit({
  label,
  value,
  set,
  isRead,
}: {
  label: string;
  value: string;
  set: (value: string) => void;
  isRead: boolean;
}) {
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
        {isRead && value !== "" && raised(value) !== value && (
          <button type="button" className="btn" onClick={() => set(raised(value))}>
            Raise to {raised(value)}
          </button>
        )}
      </div>
    </div>
  );
}
