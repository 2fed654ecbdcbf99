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
import { Empty, Panel, Skeleton } from "../parts/panel";
import { download } from "../parts/payload";
import { Budgets } from "./cost-budgets";

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
