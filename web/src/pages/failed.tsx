/** Failed and dead runs, grouped by agent and reason: issues that are open, resolved or muted. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { number } from "../data/format";
import { type FailureRow, useFailures } from "../data/home";
import { useTitle } from "../frame/title";
import { Bars } from "../parts/figure";
import { FilterBar } from "../parts/filterbar";
import { Name } from "../parts/name";
import { Problem } from "../parts/notice";
import { Opener } from "../parts/opener";
import { OwnOnly, useSeesRuns } from "../parts/own-only";
import { Empty, Panel, Skeleton } from "../parts/panel";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { Issue } from "./failed-issue";

const PERIODS = [
  { since: "1 hour", name: "1 h" },
  { since: "1 day", name: "24 h" },
  { since: "7 days", name: "7 days" },
  { since: "", name: "all" },
] as const;

const VIEWS = {
  open: { name: "Open", view: undefined },
  resolved: { name: "Resolved", view: "resolved" },
  muted: { name: "Muted", view: "muted" },
} as const;

/** Where an issue is listed: new ones, ongoing ones and those that came back are open. */
function viewOf({ issue }: FailureRow): keyof typeof VIEWS {
  return issue === "resolved" || issue === "muted" ? issue : "open";
}

export default function Failed(): ReactNode {
  useTitle("Failures");
  const { since = "7 days", q = "", open = "", view } = useSearch({ from: "/signed-in/failed" });
  const navigate = useNavigate();
  const go = (change: { since?: string; q?: string; open?: string }) =>
    void navigate({ to: "/failed", search: { since, q, open, view, ...change }, replace: true });
  const seesRuns = useSeesRuns();
  const period = since === "all" ? "" : since;
  const { rows, error, again } = useFailures(period, q);
  const waiting = (rows ?? []).reduce((sum, row) => sum + Number(row.waiting), 0);
  const failed = (rows ?? []).filter((row) => Number(row.runs) > 0);
  const shown = failed.filter((row) => VIEWS[viewOf(row)].view === view);
  const runs = shown.reduce((sum, row) => sum + Number(row.runs), 0);
  return (
    <div className="stack">
      <div className="head">
        <h1>Failures</h1>
        {rows && (
          <span className="muted">
            {number(runs)} {runs === 1 ? "run" : "runs"}, {shown.length} {shown.length === 1 ? "reason" : "reasons"}
          </span>
        )}
        <div className="actions">
          <span className="toggle" role="group" aria-label="Period">
            {PERIODS.map((each) => (
              <button
                key={each.name}
                type="button"
                aria-pressed={period === each.since}
                onClick={() => go({ since: each.since || "all" })}
              >
                {each.name}
              </button>
            ))}
          </span>
        </div>
      </div>
      <OwnOnly />
      <nav className="tabs" aria-label="Issues">
        {Object.entries(VIEWS).map(([key, each]) => (
          <Link
            key={key}
            to="/failed"
            search={{ since, q, view: each.view }}
            activeProps={{}}
            aria-current={view === each.view || undefined}
            replace
          >
            {each.name} <span className="count">{failed.filter((row) => viewOf(row) === key).length}</span>
          </Link>
        ))}
      </nav>
      <FilterBar
        className="search-w"
        label="Filter reasons"
        placeholder="SQLSTATE, tool, agent or text"
        text={q}
        onChange={(_, text) => go({ q: text })}
      />
      {error && !rows ? (
        <Panel title="Reasons" flush>
          <Problem error={error} again={again} />
        </Panel>
      ) : rows === null ? (
        <Panel label="Reasons" flush busy>
          <Skeleton />
        </Panel>
      ) : shown.length === 0 ? (
        <Empty
          title={
            q
              ? "No reason matches"
              : view
                ? `Nothing is ${view}`
                : failed.length
                  ? "No failure is open"
                  : seesRuns
                    ? "Nothing failed"
                    : "None of your runs failed"
          }
          action={
            q ? (
              <button type="button" className="btn small" onClick={() => go({ q: "" })}>
                Clear the filter
              </button>
            ) : undefined
          }
        >
          {q
            ? "The filter hides all reasons."
            : "Runs that failed, and those whose attempts are used up, are grouped here by reason."}
        </Empty>
      ) : (
        <Panel label="Reasons" flush>
          {shown.map((row) => (
            <Group
              key={row.id}
              row={row}
              isOpen={open === row.id}
              onToggle={(isOpen) => go({ open: isOpen ? row.id : open === row.id ? "" : open })}
              again={again}
            />
          ))}
        </Panel>
      )}
      <p className="muted">
        {waiting > 0 && (
          <>
            Waiting for a retry is not a failure:{" "}
            <Link to="/runs" search={{ state: "waiting_retry" }}>
              {number(waiting)} {waiting === 1 ? "run" : "runs"}
            </Link>{" "}
            go on by themselves.{" "}
          </>
        )}
        Runs that wait for a person are in <Link to="/approvals">Approvals</Link>.
      </p>
    </div>
  );
}

function Group({
  row,
  isOpen,
  onToggle,
  again,
}: {
  row: FailureRow;
  isOpen: boolean;
  onToggle: (isOpen: boolean) => void;
  again: () => void;
}) {
  return (
    <details className="grp" open={isOpen}>
      <Opener
        toggle={() => {
          onToggle(!isOpen);
        }}
      >
        <b className="gn">{number(row.runs)}</b>
        <State state={row.issue} />
        <span className="clip grow" title={row.reason}>
          {row.sqlstate && <code>{row.sqlstate}</code>} {row.reason}
        </span>
        <span className="hide-m muted nowrap">
          <Name text={row.agent} />
        </span>
        {row.assignee && <span className="hide-m muted nowrap">{row.assignee}</span>}
        <span className="hide-s">
          <Bars values={row.spark} />
        </span>
        <span className="muted nowrap">
          <Time at={row.last_at} />
        </span>
      </Opener>
      {isOpen && <Issue row={row} again={again} />}
    </details>
  );
}
