/** A new budget: what it applies to, and its limits. */
import { useState } from "react";

import { APPLIES, type Applies, type BudgetDraft, type BudgetOptions, limitOf, wrongDraft } from "../data/budgets";
import { mutate } from "../data/mutate";
import { FormDialog } from "../parts/form-dialog";
import { toast } from "../parts/toast";
import { BudgetFields } from "./cost-budget-fields";

interface NewProps {
  options: BudgetOptions;
  names: readonly string[];
  again: () => void;
  onClose: () => void;
}

export function NewBudget({ options, names, again, onClose }: NewProps) {
  const [name, setName] = useState("");
  const [applies, setApplies] = useState<Applies>("all");
  const [to, setTo] = useState("");
  const [draft, setDraft] = useState<BudgetDraft>({
    max_cost: "",
    max_tokens: "",
    period: "month",
    on_exceeded: "wait",
  });
  const known = applies === "all" ? [] : options[`${applies}s` as const];
  const isTaken = names.includes(name.trim());
  const wrong = isTaken ? `There is a budget ${name.trim()}.` : wrongDraft(draft);
  const hasTyped = name !== "" || draft.max_cost !== "" || draft.max_tokens !== "";
  return (
    <FormDialog
      title="New budget"
      action="Make the budget"
      keep="Discard"
      isReady={name.trim() !== "" && wrong === undefined && (applies === "all" || to !== "")}
      send={async () => {
        const of = { agent: "", attachment: "", model: "", asker: "", ...(applies === "all" ? {} : { [applies]: to }) };
        await mutate("add_budget", { name: name.trim(), ...of, ...draft });
        const limit = { ...draft, max_cost: draft.max_cost || null, max_tokens: draft.max_tokens || null };
        toast(`${name.trim()} is ${limitOf(limit)}. It counts from now on.`);
      }}
      again={again}
      onClose={onClose}
    >
      <label className="field">
        Name
        <input type="text" value={name} autoComplete="off" onChange={(event) => setName(event.target.value)} />
      </label>
      <label className="field">
        Applies to
        <select
          value={applies}
          onChange={(event) => {
            setApplies(event.target.value as Applies);
            setTo("");
          }}
        >
          {Object.entries(APPLIES).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      {applies !== "all" && (
        <label className="field">
          Which
          <select value={to} onChange={(event) => setTo(event.target.value)}>
            <option value="">choose one</option>
            {known.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      )}
      <BudgetFields draft={draft} change={(part) => setDraft({ ...draft, ...part })} />
      {hasTyped && wrong && (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      )}
    </FormDialog>
  );
}
