/** Cost: by day, agent, model and tenant, and what budgets allow. */
import { Link, linkOptions, useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { csv } from "../data/csv";
import { count, money, number, percent } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { useSession } from "../data/session";
import { useTitle } from "../frame/title";
import { Chart, Legend, type Series } from "../parts/chart";
import { Icon } from "../parts/icon";
import { Problem } from "../parts/notice";
import { Empty, EmptyBody, Panel, Skeleton } from "../parts/panel";
import { download } from "../parts/payload";
import { Table } from "../parts/table";
import { Time } from "../parts/time";

interface CostRow {
  day: string;
  agent: string;
  model: string;
  tenant: string;
  runs: string;
  cost: string | null;
  unknown: string;
  tokens: string;
  cached: string;
}

interface BudgetRow {
  name: string;
  applies_to: string;
  period: string;
  on_exceeded: string;
  max_cost: string | null;
  spent_cost: string | null;
  reserved_cost: string | null;
  max_tokens: string | null;
  spent_tokens: string | null;
  reserved_tokens: string | null;
  waiting: string;
  resets_at: string | null;
}

const PERIODS = [
  { days: "1", name: "Today" },
  { days: "14", name: "14 days" },
  { days: "31", name: "Month" },
] as const;
const INKS = ["accent", "retry", "idle"] as const;

export default function Cost(): ReactNode {
  useTitle("Cost");
  const { days = "14", agent = "" } = useSearch({ from: "/signed-in/cost" });
  const navigate = useNavigate();
  const zone = useSession()?.time_zone;
  const { rows, error, again } = useQueryOnce<CostRow>("cost", { days }, { every: 30_000 });
  const shown = (rows ?? []).filter((row) => !agent || row.agent === agent);
  const period = PERIODS.find((each) => each.days === days)?.name ?? `${days} days`;
  return (
    <>
      <div className="head">
        <h1>Cost</h1>
        <span className="toggle" role="group" aria-label="Period">
          {PERIODS.map((each) => (
            <button
              key={each.days}
              type="button"
              aria-pressed={days === each.days}
              onClick={() => void navigate({ to: "/cost", search: { days: each.days, agent } })}
            >
              {each.name}
            </button>
          ))}
        </span>
        {agent && (
          <Link to="/cost" search={{ days }}>
            All agents, not only {agent}
          </Link>
        )}
        <div className="actions">
          <button className="btn quiet" type="button" disabled={!shown.length} onClick={() => exportCost(shown)}>
            <Icon name="dl" />
            CSV
          </button>
        </div>
      </div>
      {error && !rows ? (
        <Panel title="Cost" flush>
          <Problem error={error} again={again} />
        </Panel>
      ) : rows === null ? (
        <Panel label="Cost" flush busy>
          <Skeleton rows={6} />
        </Panel>
      ) : (
        <div className="stack">
          {shown.length === 0 ? (
            <Empty title="No model calls in this time">Each call is recorded here with its tokens and price.</Empty>
          ) : (
            <>
              <Totals rows={shown} period={period} />
              <Panel
                title="By day"
                aside={<span className="muted hide-s">days end at midnight, {zone}</span>}
                end={<Legend series={inked(shown)} />}
              >
                <ByDay rows={shown} days={Number(days)} />
              </Panel>
              <div className="grid-3">
                <By
                  title="By agent"
                  rows={shown}
                  of={(row) => row.agent}
                  period={period}
                  link={(name) => (
                    <Link to="/runs" search={{ agent: name }}>
                      {name}
                    </Link>
                  )}
                />
                <By
                  title="By model"
                  rows={shown}
                  of={(row) => row.model}
                  period={period}
                  tokens
                  foot="A model without a price counts as unknown, not as zero."
                />
                <By title="By tenant" rows={shown} of={(row) => row.tenant} period={period} />
              </div>
            </>
          )}
          <Budgets />
        </div>
      )}
    </>
  );
}

function sum(rows: readonly CostRow[], of: (row: CostRow) => string | null): number {
  return rows.reduce((total, row) => total + Number(of(row) ?? 0), 0);
}

function Totals({ rows, period }: { rows: readonly CostRow[]; period: string }) {
  const runs = sum(rows, (row) => row.runs);
  const cost = sum(rows, (row) => row.cost);
  const tokens = sum(rows, (row) => row.tokens);
  const unknown = sum(rows, (row) => row.unknown);
  return (
    <section className="figures four" aria-label="Totals">
      <Link to="/runs">
        <span className="label">{period}</span>
        <span className="value">
          {money(cost)} <small>{number(runs)} runs</small>
        </span>
      </Link>
      <Link to="/runs">
        <span className="label">A run, mean</span>
        <span className="value">{money(runs ? cost / runs : 0)}</span>
      </Link>
      <Link to="/runs">
        <span className="label">Tokens</span>
        <span className="value">
          {count(tokens)}{" "}
          <small>
            {percent(
              sum(rows, (row) => row.cached),
              tokens,
            )}{" "}
            cached
          </small>
        </span>
      </Link>
      <Link to="/runs">
        <span className="label">Calls without a price</span>
        <span className="value">{number(unknown)}</span>
      </Link>
    </section>
  );
}

function leading(rows: readonly CostRow[]): string[] {
  const by = new Map<string, number>();
  for (const row of rows) by.set(row.agent, (by.get(row.agent) ?? 0) + Number(row.cost ?? 0));
  return [...by]
    .sort((a, b) => b[1] - a[1])
    .slice(0, 2)
    .map(([name]) => name);
}

/** Colors of agents: two have their own, the others share one. */
function inked(rows: readonly CostRow[]): Omit<Series, "values">[] {
  const names = leading(rows);
  const others = rows.some((row) => !names.includes(row.agent));
  return [
    ...names.map((name, i) => ({ name, ink: INKS[i] ?? "accent" })),
    ...(others ? [{ name: "others", ink: INKS[2] }] : []),
  ];
}

function ByDay({ rows, days }: { rows: readonly CostRow[]; days: number }) {
  const last = rows.at(-1)?.day ?? new Date().toISOString().slice(0, 10);
  const labels = Array.from({ length: days }, (_, i) => {
    const at = new Date(`${last}T00:00:00Z`);
    at.setUTCDate(at.getUTCDate() - (days - 1 - i));
    return at.toISOString().slice(0, 10);
  });
  const names = leading(rows);
  const of = (wanted: (agent: string) => boolean) =>
    labels.map((day) =>
      sum(
        rows.filter((row) => row.day === day && wanted(row.agent)),
        (row) => row.cost,
      ),
    );
  const series = inked(rows).map((each) => ({
    ...each,
    values: of((agent) => (names.includes(each.name) ? agent === each.name : !names.includes(agent))),
  }));
  const short = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  return (
    <Chart
      unit="dollars"
      label={`Cost by day, ${labels[0]} to ${last}: ${money(sum(rows, (row) => row.cost))} in all`}
      labels={labels.map((day) => short.format(new Date(`${day}T00:00:00Z`)))}
      series={series}
      link={(i) => linkOptions({ to: "/runs", search: { since: labels[i], until: labels[i + 1], cost: "0.000001" } })}
    />
  );
}

function By({
  title,
  rows,
  of,
  period,
  tokens,
  foot,
  link,
}: {
  title: string;
  rows: readonly CostRow[];
  of: (row: CostRow) => string;
  period: string;
  tokens?: boolean;
  foot?: string;
  link?: (name: string) => ReactNode;
}) {
  const groups = [...new Set(rows.map(of))].map((name) => {
    const own = rows.filter((row) => of(row) === name);
    return {
      name,
      runs: sum(own, (row) => row.runs),
      tokens: sum(own, (row) => row.tokens),
      cost: own.every((row) => row.cost === null) ? null : sum(own, (row) => row.cost),
    };
  });
  groups.sort((a, b) => (b.cost ?? -1) - (a.cost ?? -1));
  return (
    <Panel title={title} flush foot={foot}>
      <table>
        <thead>
          <tr>
            <th scope="col">{title.slice(3, 4).toUpperCase() + title.slice(4)}</th>
            <th scope="col" className="num">
              {tokens ? "Tokens" : "Runs"}
            </th>
            <th scope="col" className="num">
              {period}
            </th>
          </tr>
        </thead>
        <tbody>
          {groups.slice(0, 12).map((each) => (
            <tr key={each.name}>
              <td>{link ? link(each.name) : each.name || <span className="muted">not named</span>}</td>
              <td className="num">{tokens ? count(each.tokens) : number(each.runs)}</td>
              <td className={`num${each.cost === null ? " muted" : ""}`}>
                {money(each.cost === null ? null : String(each.cost))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function Budgets() {
  const { rows, error, again } = useQueryOnce<BudgetRow>("budgets", {}, { every: 15_000 });
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
        <Table<BudgetRow>
          label="Budgets"
          rows={rows}
          rowKey={(row) => row.name}
          columns={[
            { title: "Budget", className: "strong", cell: (row) => row.name },
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
              cell: (row) =>
                `${row.max_cost === null ? `${number(row.max_tokens)} tokens` : money(row.max_cost)} ${row.period === "total" ? "in total" : `a ${row.period}`}`,
            },
            {
              title: "When reached",
              className: "hide-s",
              cell: (row) => (row.on_exceeded === "fail" ? "runs fail" : "runs wait"),
            },
            {
              title: "Resets",
              label: "Resets",
              className: "num nowrap inline",
              cell: (row) => <Time at={row.resets_at} />,
            },
          ]}
        />
      )}
    </Panel>
  );
}

function BudgetBar({ row }: { row: BudgetRow }) {
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

const COLUMNS = ["day", "agent", "model", "tenant", "runs", "tokens", "cached", "cost", "unknown"] as const;

function exportCost(rows: readonly CostRow[]): void {
  download(
    "cost.csv",
    csv(
      COLUMNS,
      rows.map((row) => COLUMNS.map((name) => row[name])),
    ),
    "text/csv",
  );
}
