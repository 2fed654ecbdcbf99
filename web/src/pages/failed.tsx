/** Failed and dead runs, grouped by reason. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";

import { actOnMany } from "../data/bulk";
import { number } from "../data/format";
import { badge, type FailureRow, filterParams, type RunRow, useFailures } from "../data/runs";
import { useQueryOnce } from "../data/queries";
import { visible } from "../data/visible";
import { useTitle } from "../frame/title";
import { Copy } from "../parts/copy";
import { Bars } from "../parts/figure";
import { FilterBar } from "../parts/filterbar";
import { Icon } from "../parts/icon";
import { Name } from "../parts/name";
import { Problem } from "../parts/notice";
import { Of } from "../parts/of";
import { OwnOnly, useSeesRuns } from "../parts/own-only";
import { Empty, Panel, Skeleton } from "../parts/panel";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { groupFilter, RetryGroup, useMayOperate } from "./failed-group";

const PERIODS = [
  { since: "1 hour", name: "1 h" },
  { since: "1 day", name: "24 h" },
  { since: "7 days", name: "7 days" },
  { since: "", name: "all" },
] as const;

export default function Failed(): ReactNode {
  useTitle("Failures");
  const { since = "7 days", q = "", open = "" } = useSearch({ from: "/signed-in/failed" });
  const navigate = useNavigate();
  const go = (change: { since?: string; q?: string; open?: string }) =>
    void navigate({ to: "/failed", search: { since, q, open, ...change }, replace: true });
  const seesRuns = useSeesRuns();
  const period = since === "all" ? "" : since;
  const { rows, error, again } = useFailures(period, q);
  const failed = useMemo(() => (rows ?? []).filter((row) => row.state !== "waiting_retry"), [rows]);
  const waiting = (rows ?? [])
    .filter((row) => row.state === "waiting_retry")
    .reduce((sum, row) => sum + Number(row.runs), 0);
  const runs = failed.reduce((sum, row) => sum + Number(row.runs), 0);
  return (
    <div className="stack">
      <div className="head">
        <h1>Failures</h1>
        {rows && (
          <span className="muted">
            {number(runs)} {runs === 1 ? "run" : "runs"}, {failed.length} {failed.length === 1 ? "reason" : "reasons"}
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
      ) : failed.length === 0 ? (
        <Empty
          title={q ? "No reason matches" : seesRuns ? "Nothing failed" : "None of your runs failed"}
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
          {failed.map((row) => (
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
      <summary
        onClick={(event) => {
          event.preventDefault();
          onToggle(!isOpen);
        }}
      >
        <Icon name="right" small className="tw" />
        <b className="gn">{number(row.runs)}</b>
        <State state={badge(row.state)} />
        <span className="clip grow" title={row.reason}>
          {row.sqlstate && <code>{row.sqlstate}</code>} {row.reason}
        </span>
        <span className="hide-m muted nowrap">
          <Name text={row.agent} />
        </span>
        <span className="hide-s">
          <Bars values={row.spark} />
        </span>
        <span className="muted nowrap">
          <Time at={row.last_at} />
        </span>
      </summary>
      {isOpen && <GroupBody row={row} again={again} />}
    </details>
  );
}

function GroupBody({ row, again }: { row: FailureRow; again: () => void }) {
  const filter = groupFilter(row);
  const runs = useQueryOnce<RunRow>("runs", { ...filterParams(filter), before: "", limit: 10 });
  const mayOperate = useMayOperate();
  const versions = Object.entries(row.versions ?? {})
    .map(([version, n]) => `v${version}: ${n}`)
    .join(", ");
  const newest = runs.rows?.[0];
  return (
    <div className="gbody">
      <dl className="kv">
        <dt>Reason</dt>
        <dd>
          <span className="said" dir="auto">
            {visible(row.reason)}
          </span>{" "}
          <Copy text={row.reason} />
        </dd>
        {row.message && (
          <>
            <dt>Message</dt>
            <dd>
              <code>{row.message}</code> <Copy text={row.message} />
            </dd>
          </>
        )}
        {row.tool && (
          <>
            <dt>Where</dt>
            <dd>
              tool <code>{row.tool}</code>
            </dd>
          </>
        )}
        {versions && (
          <>
            <dt>Versions</dt>
            <dd>
              {row.agent} {versions}
            </dd>
          </>
        )}
        <dt>First, last</dt>
        <dd>
          <Time at={row.first_at} />, <Time at={row.last_at} />
        </dd>
      </dl>
      {runs.error ? (
        <Problem error={runs.error} again={runs.again} />
      ) : runs.rows === null ? (
        <Skeleton rows={2} />
      ) : (
        <Table<RunRow>
          label="Newest runs"
          rows={runs.rows}
          rowKey={(run) => run.id}
          columns={[
            {
              title: "Run",
              label: "Run",
              className: "num inline",
              cell: (run) => (
                <Link to="/runs/$run" params={{ run: run.id }}>
                  {run.id}
                </Link>
              ),
            },
            {
              title: "Row",
              className: "c0",
              cell: (run) => (
                <span className="clip">
                  <Of run={run} />
                </span>
              ),
            },
            {
              title: "Attempt",
              label: "Attempt",
              className: "num hide-s",
              cell: (run) => `${run.attempt} of ${run.max_attempts}`,
            },
            {
              title: "When",
              label: "When",
              className: "num inline nowrap",
              cell: (run) => <Time at={run.finished_at ?? run.created_at} />,
            },
          ]}
        />
      )}
      <div className="row wrap">
        {mayOperate && newest && (
          <button
            type="button"
            className="btn small"
            onClick={async () => {
              await actOnMany("retry", [newest.id], 1);
              again();
              runs.again();
            }}
          >
            <Icon name="retry" small />
            Retry run {newest.id}
          </button>
        )}
        <RetryGroup row={row} again={again} long />
        <Link className="end" to="/runs" search={filter}>
          Open the {number(row.runs)} {Number(row.runs) === 1 ? "run" : "runs"}
        </Link>
      </div>
    </div>
  );
}
