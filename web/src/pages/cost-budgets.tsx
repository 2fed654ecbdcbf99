/** What budgets allow, spend and reserve; they are changed where they are read. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { type Budget, type BudgetOptions, limitOf, statement } from "../data/budgets";
import { money, number, percent } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { Copy } from "../parts/copy";
import { Problem } from "../parts/notice";
import { EmptyBody, Panel, Skeleton } from "../parts/panel";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { EditBudget } from "./cost-budget-edit";
import { NewBudget } from "./cost-budget-new";

export function Budgets() {
  const [editing, edit] = useState<string | null>(null);
  const { rows, error, again } = useQueryOnce<Budget>("budgets", {}, { every: 15_000 });
  const options = useQueryOnce<BudgetOptions>("budget_options").rows?.[0];
  const [isAdding, add] = useState(false);
  const mayMake = options?.refusal === null;
  const edited = rows?.find((row) => row.name === editing);
  const refusal = rows?.[0]?.refusal;
  return (
    <Panel
      title="Budgets"
      flush
      end={
        <span className="legend">
          <span>
            <svg viewBox="0 0 12 10" aria-hidden="true">
              <rect className="f-accent" width="12" height="10" />
            </svg>
            spent
          </span>
          <span>
            <svg viewBox="0 0 12 10" aria-hidden="true">
              <rect className="f-person" width="12" height="10" />
            </svg>
            reserved
          </span>
          {mayMake && (
            <button type="button" className="btn small" onClick={() => add(true)}>
              New budget…
            </button>
          )}
        </span>
      }
    >
      {error && !rows ? (
        <Problem error={error} again={again} />
      ) : rows === null ? (
        <Skeleton />
      ) : rows.length === 0 ? (
        <EmptyBody title="No budget" command="budgets: {everything: {period: month, max_cost: 200}}">
          A budget limits what runs together spend; a call that could exceed it waits, or its run fails.
        </EmptyBody>
      ) : (
        <Table<Budget>
          label="Budgets"
          rows={rows}
          rowKey={(row) => row.name}
          columns={[
            {
              title: "Budget",
              className: "clip named",
              cell: (row) => (
                <span className="clip strong" title={row.name}>
                  {row.name}
                </span>
              ),
            },
            { title: "Applies to", className: "inline", cell: (row) => row.applies_to || "all runs and questions" },
            { title: "", className: "wide", cell: (row) => <BudgetBar row={row} /> },
            {
              title: "Spent",
              label: "Spent",
              className: "num inline",
              cell: (row) => (row.max_cost === null ? number(row.spent_tokens) : money(row.spent_cost ?? "0")),
            },
            {
              title: "Reserved",
              label: "Reserved",
              className: "num inline",
              cell: (row) => (row.max_cost === null ? number(row.reserved_tokens) : money(row.reserved_cost ?? "0")),
            },
            {
              title: "Limit",
              label: "Limit",
              className: "num inline",
              cell: (row) => limitOf(row),
            },
            {
              title: "When reached",
              className: "hide-s",
              cell: (row) => <Waiting row={row} />,
            },
            {
              title: "Resets",
              label: "Resets",
              className: "num nowrap inline",
              cell: (row) => <Time at={row.resets_at} />,
            },
            ...(refusal === null
              ? [
                  {
                    title: <span className="vh">Actions</span>,
                    className: "num inline",
                    cell: (row: Budget) => (
                      <button
                        type="button"
                        className="btn small"
                        aria-label={`Change ${row.name}`}
                        onClick={() => edit(row.name)}
                      >
                        Change…
                      </button>
                    ),
                  },
                ]
              : []),
          ]}
        />
      )}
      {rows?.[0] && refusal && <WhoChanges row={rows[0]} refusal={refusal} />}
      {isAdding && options && (
        <NewBudget
          options={options}
          names={rows?.map((row) => row.name) ?? []}
          again={again}
          onClose={() => add(false)}
        />
      )}
      {edited && <EditBudget row={edited} again={again} onClose={() => edit(null)} />}
    </Panel>
  );
}

/** What happens at the limit, and how many runs wait for it now. */
function Waiting({ row }: { row: Budget }) {
  const waiting = Number(row.waiting);
  const what = row.on_exceeded === "warn" ? "calls go on" : row.on_exceeded === "fail" ? "runs fail" : "runs wait";
  return (
    <>
      {what}
      {waiting > 0 && (
        <span className="block">
          <Link to="/runs" search={{ state: "waiting_retry" }}>
            {number(waiting)} {waiting === 1 ? "waits" : "wait"} now
          </Link>
        </span>
      )}
    </>
  );
}

/** Why the one who is signed in changes none, and what does. */
function WhoChanges({ row, refusal }: { row: Budget; refusal: NonNullable<Budget["refusal"]> }) {
  const text = statement(row);
  return (
    <footer>
      {refusal === "role"
        ? "Budgets are changed by admins whose login may change them."
        : refusal === "login"
          ? "Budgets are changed as a login of PostgreSQL, and your principal has none."
          : "Your login may not change budgets: it lacks UPDATE on agent.budget."}{" "}
      The operator runs <code>{text}</code> <Copy text={text} />
    </footer>
  );
}

function BudgetBar({ row }: { row: Budget }) {
  const whole = Number(row.max_cost ?? row.max_tokens ?? 0);
  const spent = Number((row.max_cost === null ? row.spent_tokens : row.spent_cost) ?? 0);
  const reserved = Number((row.max_cost === null ? row.reserved_tokens : row.reserved_cost) ?? 0);
  const at = (part: number) => (whole > 0 ? Math.min((200 * part) / whole, 200) : 0);
  return (
    <svg
      className="bar8"
      viewBox="0 0 200 8"
      preserveAspectRatio="none"
      role="img"
      aria-label={`${percent(spent, whole) || "0 %"} spent, ${percent(reserved, whole) || "0 %"} reserved`}
    >
      <rect className="f-track" width="200" height="8" rx="3" />
      <rect className="f-person" width={at(spent + reserved)} height="8" rx="3" />
      <rect className="f-accent" width={at(spent)} height="8" rx="3" />
    </svg>
  );
}
