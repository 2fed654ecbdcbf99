/** The list of calls: its tabs, what narrows it, its items. */
import { Link, useNavigate } from "@tanstack/react-router";

import { number } from "../data/format";
import { argumentsOf, filterFrom, filterText, suggestionsOf, toolsOf } from "../data/queue";
import type { ApprovalRow } from "../data/approvals";
import { visible } from "../data/visible";
import { FilterBar } from "../parts/filterbar";
import { Of } from "../parts/of";
import { State } from "../parts/state";
import { Time } from "../parts/time";

export function Tabs({ waiting, tab }: { waiting: number; tab: string | undefined }) {
  return (
    <nav className="tabs item" aria-label="Lists">
      <TabLink name="Waiting" count={waiting} isCurrent={!tab} />
      <TabLink name="Mine" tab="mine" isCurrent={tab === "mine"} />
      <TabLink name="History" tab="history" isCurrent={tab === "history"} />
    </nav>
  );
}

function TabLink({ name, tab, count, isCurrent }: { name: string; tab?: string; count?: number; isCurrent: boolean }) {
  return (
    <Link to="/approvals" search={{ tab }} activeProps={{}} aria-current={isCurrent || undefined}>
      {name} {count ? <span className="count">{count}</span> : null}
    </Link>
  );
}

interface NarrowProps {
  rows: readonly ApprovalRow[];
  shown: readonly ApprovalRow[];
  selected: ReadonlySet<string>;
  select: (ids: readonly string[], on: boolean) => void;
  q: string;
  sort: string;
  approval: string | undefined;
}

/** Tools with their counts, the filter, the order, and the selection of all that is shown. */
export function Narrow({ rows, shown, selected, select, q, sort, approval }: NarrowProps) {
  const navigate = useNavigate();
  const filter = filterFrom(q, rows);
  const tool = filter.tokens.find((each) => each.name === "tool")?.value;
  const known = suggestionsOf(rows, tool);
  const tools = toolsOf(rows);
  const go = (next: { q?: string; sort?: string }) =>
    void navigate({ to: "/approvals", search: { q, sort, approval, ...next }, replace: true, resetScroll: false });
  const isAll = shown.length > 0 && shown.every((row) => selected.has(row.id));
  return (
    <div className="item narrow">
      {tools.length > 1 && (
        <div className="facets" role="group" aria-label="Tools">
          {tools.map(([name, count]) => (
            <Link
              key={name}
              to="/approvals"
              search={{ q: tool === name ? undefined : `tool:${name}`, approval }}
              activeProps={{}}
              aria-current={tool === name || undefined}
              replace
            >
              <code>{name}</code> <span className="count">{number(count)}</span>
            </Link>
          ))}
        </div>
      )}
      <FilterBar
        label="Filter the calls that wait"
        placeholder={tool ? "amount:<50, a word" : "tool:, agent:, risk:, a word"}
        tokens={filter.tokens}
        text={filter.text}
        suggestions={known}
        onChange={(tokens, text) => go({ q: filterText({ tokens, text }, known) })}
      />
      <div className="row spread">
        <label className="row nowrap">
          <input
            type="checkbox"
            checked={isAll}
            onChange={() =>
              select(
                shown.map((row) => row.id),
                !isAll,
              )
            }
            disabled={shown.length === 0}
          />
          All {number(shown.length)} shown
        </label>
        <label className="row">
          <span className="muted">Order</span>
          <select value={sort} onChange={(event) => go({ sort: event.target.value })}>
            <option value="">as asked</option>
            <option value="expires">expires first</option>
            {argumentsOf(rows, tool).flatMap((name) => [
              <option key={name} value={name}>
                {name}, least first
              </option>,
              <option key={`-${name}`} value={`-${name}`}>
                {name}, greatest first
              </option>,
            ])}
          </select>
        </label>
      </div>
    </div>
  );
}

interface ItemProps {
  row: ApprovalRow;
  search: { tab?: string | undefined; q?: string | undefined; sort?: string | undefined };
  isCurrent: boolean;
  isSelected: boolean;
  /** None where nothing can be selected. */
  select?: ((ids: readonly string[], on: boolean) => void) | undefined;
}

export function Item({ row, search, isCurrent, isSelected, select }: ItemProps) {
  return (
    <div className={select ? "pick" : undefined}>
      {select && (
        <input
          type="checkbox"
          aria-label={`Select the call of run ${row.run_id}`}
          checked={isSelected}
          onChange={() => select([row.id], !isSelected)}
        />
      )}
      <Link
        className="item"
        to="/approvals"
        search={{ ...search, approval: row.id }}
        activeProps={{}}
        aria-current={isCurrent || undefined}
      >
        <span className="top">
          <code className="strong clip">{row.tool}</code>
          <span className="muted nowrap">
            <Time at={row.decided_at ?? row.asked_at} short />
          </span>
        </span>
        <span className="clip">
          {row.state !== "pending" && (
            <>
              <State state={row.edited ? "edited" : row.state} bare />{" "}
            </>
          )}
          {visible(row.values ?? "")}
        </span>
        <span className="clip muted">
          <Of run={row} quoted />
        </span>
      </Link>
    </div>
  );
}
