/** Home: is it healthy, what waits for a person, what failed, what it costs; each number leads to its rows. */
import { Link, linkOptions } from "@tanstack/react-router";
import { type ReactNode } from "react";

import { clock, count, duration, money, number } from "../data/format";
import { useQueryOnce } from "../data/queries";
import {
  type FailureRow,
  type HomeRow,
  type MinuteRow,
  useFailures,
  useHome,
  useThroughput,
  useWaits,
} from "../data/home";
import { useSession } from "../data/session";
import { useZone } from "../data/zone";
import { useTitle } from "../frame/title";
import { Chart, Legend, type Series } from "../parts/chart";
import { Meter, Sparkline } from "../parts/figure";
import { Name } from "../parts/name";
import { Problem } from "../parts/notice";
import { OwnOnly, useSeesRuns } from "../parts/own-only";
import { Empty, EmptyBody, Panel, Skeleton } from "../parts/panel";
import { isUrgent, Problems } from "../parts/problems";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { groupFilter, RetryGroup } from "./failed-group";
import { FellAccuracy } from "./home-accuracy";
import { Figures } from "./home-figures";
import { Waits } from "./home-waits";

export default function Home(): ReactNode {
  const session = useSession();
  useTitle("Home");
  const { rows, error, again } = useHome();
  const waits = useWaits();
  const home = rows?.[0];
  const seesRuns = useSeesRuns();
  return (
    <>
      <div className="head">
        <h1>{session?.database}</h1>
        {home && seesRuns && <Health home={home} isLate={error !== null} />}
      </div>
      <div className="stack">
        <OwnOnly />
        {home && <Problems rows={home.problems} />}
        <FellAccuracy />
        {error && !home ? (
          <Panel title="Figures" flush>
            <Problem error={error} again={again} />
          </Panel>
        ) : (
          <Figures home={home} />
        )}
        <div className="grid-2 break-m">
          <Waits rows={waits.rows} isLoading={waits.isLoading} />
          <CostToday />
        </div>
        <Failures />
        <Charts />
      </div>
    </>
  );
}

function Health({ home, isLate }: { home: HomeRow; isLate: boolean }) {
  const urgent = home.problems.filter(isUrgent).length;
  return (
    <>
      {isLate ? (
        <State state="unready" word="no answer" />
      ) : urgent > 0 ? (
        <State state="broken" word={`${urgent} to act on`} />
      ) : (
        <State state="healthy" />
      )}
      <p>
        {isLate && "What you see is the last answer. "}
        {home.lag_seconds !== null && `Changes are ingested within ${duration(home.lag_seconds * 1_000)}. `}
        {home.checkpoint && (
          <>
            <Link to="/wal">Checkpoint</Link> at <span className="lsn">{home.checkpoint}</span>
          </>
        )}
        {home.standbys !== null && (
          <>
            , {home.standbys}{" "}
            <Link to="/wal" hash="readers">
              standby{home.standbys === 1 ? "" : "s"}
            </Link>
          </>
        )}
        {home.workers !== null && (
          <>
            , {home.workers}{" "}
            <Link to="/wal" hash="workers">
              worker{home.workers === 1 ? "" : "s"}
            </Link>
          </>
        )}
        .
      </p>
    </>
  );
}

function CostToday() {
  const { rows, error, again } = useQueryOnce<{ agent: string; cost: string | null }>(
    "cost_today",
    {},
    { every: 15_000 },
  );
  const most = Math.max(...(rows ?? []).map((row) => Number(row.cost ?? 0)), 0);
  return (
    <Panel title="Cost today by agent" end={<Link to="/cost">All cost</Link>} flush>
      {error && !rows ? (
        <Problem error={error} again={again} />
      ) : rows === null ? (
        <Skeleton />
      ) : rows.length === 0 ? (
        <EmptyBody title="No model calls today">Each call is recorded here with its tokens and price.</EmptyBody>
      ) : (
        <table>
          <tbody>
            {rows.slice(0, 6).map((row) => (
              <tr key={row.agent}>
                <td className="nowrap">
                  <Link className="plain" to="/cost" search={{ agent: row.agent }}>
                    <Name text={row.agent} />
                  </Link>
                </td>
                <td className="c0">
                  <Meter part={Number(row.cost ?? 0)} whole={most} className="bar6" />
                </td>
                <td className="num">{money(row.cost)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

function Failures() {
  const seesRuns = useSeesRuns();
  const { rows: found, error, again } = useFailures("1 day");
  const rows =
    found?.filter((row) => Number(row.runs) > 0 && row.issue !== "muted" && row.issue !== "resolved") ?? null;
  return (
    <Panel
      title="Failures by reason"
      aside={<span className="muted">last 24 h</span>}
      end={<Link to="/failed">Open as list</Link>}
      flush
    >
      {error && !rows ? (
        <Problem error={error} again={again} />
      ) : rows === null ? (
        <Skeleton />
      ) : rows.length === 0 ? (
        <EmptyBody title={seesRuns ? "Nothing failed" : "None of your runs failed"}>
          Runs that failed, and those whose attempts are used up, are grouped here by reason.
        </EmptyBody>
      ) : (
        <Table<FailureRow>
          label="Failures by reason"
          rows={rows.slice(0, 6)}
          rowKey={(row) => row.id}
          columns={[
            {
              title: "Runs",
              label: "Runs",
              className: "num inline",
              cell: (row) => (
                <Link to="/runs" search={groupFilter(row)}>
                  {count(row.runs)}
                </Link>
              ),
            },
            { title: "State", className: "inline", cell: (row) => <State state={row.issue} /> },
            {
              title: "Reason",
              className: "c0",
              cell: (row) => (
                <span className="clip" title={row.reason}>
                  {row.sqlstate && <code>{row.sqlstate}</code>} {row.reason}
                </span>
              ),
            },
            { title: "Agent", className: "hide-m nowrap", cell: (row) => <Name text={row.agent} /> },
            {
              title: "When",
              className: "hide-s sp",
              cell: (row) => <Sparkline values={row.spark} ink="failed" width={90} height={18} />,
            },
            { title: "Last", className: "nowrap inline", cell: (row) => <Time at={row.last_at} /> },
            {
              title: <span className="vh">Action</span>,
              className: "num",
              cell: (row) => <RetryGroup row={row} again={again} />,
            },
          ]}
        />
      )}
    </Panel>
  );
}

function Charts() {
  const { rows, error, again } = useThroughput();
  const zone = useZone();
  if (error && !rows)
    return (
      <Panel title="Runs finished per minute" flush>
        <Problem error={error} again={again} />
      </Panel>
    );
  const minutes: readonly MinuteRow[] = rows ?? [];
  const ended = minutes.reduce((sum, row) => sum + row.finished + row.failed, 0);
  if (rows && ended === 0)
    return <Empty title="No run ended in the last hour">Runs per minute and their latency are drawn here.</Empty>;
  const labels = minutes.map((row) => clock(row.minute, zone));
  const failed = minutes.reduce((sum, row) => sum + row.failed, 0);
  const counts: Series[] = [
    { name: "finished", ink: "running", values: minutes.map((row) => row.finished) },
    { name: "failed", ink: "failed", values: minutes.map((row) => row.failed) },
  ];
  const times: Series[] = [
    { name: "p50", ink: "running", values: minutes.map((row) => row.p50_ms) },
    { name: "p95", ink: "idle", dash: true, values: minutes.map((row) => row.p95_ms) },
  ];
  const link = (i: number) =>
    linkOptions({ to: "/runs", search: { ended: `${minutes[i]?.minute}..${minutes[i + 1]?.minute ?? ""}` } });
  return (
    <div className="grid-eq">
      <Panel title="Runs finished per minute" end={<Legend series={counts} />}>
        <Chart
          label={`Runs finished per minute in the last hour: ${number(ended)}, of which ${number(failed)} failed`}
          labels={labels}
          series={counts}
          link={link}
        />
      </Panel>
      <Panel title="Commit to end of run" end={<Legend series={times} />}>
        <Chart
          kind="lines"
          unit="ms"
          label="From commit to end of run, by minute of the last hour"
          labels={labels}
          series={times}
          link={link}
        />
      </Panel>
    </div>
  );
}
