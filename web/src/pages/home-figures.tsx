/** The key figures; each leads to its rows. */
import { linkOptions } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { duration, bytes, money, number, percent } from "../data/format";
import { type HomeRow, type MinuteRow, useThroughput } from "../data/home";
import { Figure, Meter, Sparkline } from "../parts/figure";
import { useSeesRuns } from "../parts/own-only";

export function Figures({ home }: { home: HomeRow | undefined }) {
  const seesRuns = useSeesRuns();
  const failed = Number(home?.failed_today ?? 0);
  const limit = home?.cost_limit ? Number(home.cost_limit) : null;
  const cost = Number(home?.cost_today ?? 0);
  return (
    <section className="figures" aria-label="Key figures" aria-busy={!home}>
      <Figure
        address={linkOptions({ to: "/runs", search: { since: "today" } })}
        label={seesRuns ? "Runs today" : "Your runs today"}
        value={home && number(home.runs_today)}
      >
        <Sparkline values={home?.runs_spark ?? []} />
      </Figure>
      <Figure
        address={linkOptions({ to: "/runs", search: { state: "failed,dead", since: "today" } })}
        label={seesRuns ? "Failed or dead today" : "Of yours failed today"}
        value={home && number(failed)}
        small={home && failed > 0 && percent(failed, Number(home.runs_today))}
      >
        <Sparkline values={home?.failed_spark ?? []} ink="failed" />
      </Figure>
      <Figure
        address={linkOptions({ to: "/runs", search: { state: "succeeded", since: "1h" } })}
        label="Commit to end of run"
        value={home && (home.p50_ms === null ? undefined : duration(home.p50_ms))}
        small={home?.p95_ms != null && `p95 ${duration(home.p95_ms)}`}
      >
        <MinuteSpark of={(row) => row.p50_ms} ink="running" />
      </Figure>
      <Figure
        address={linkOptions({ to: "/runs", search: { state: "pending,running" } })}
        label="Pending and running"
        value={home && number(Number(home.pending) + Number(home.running))}
        small={home && `${number(home.running)} running`}
      >
        <OpenSpark home={home} />
      </Figure>
      <Figure
        address={linkOptions({ to: "/cost" })}
        label="Cost today"
        aside={limit !== null && `of ${money(limit)}`}
        value={home && (home.cost_today === null ? "$0.00" : money(home.cost_today))}
        small={limit ? percent(cost, limit) : undefined}
      >
        {limit ? <Meter part={cost} whole={limit} ink={cost > 0.8 * limit ? "person" : "accent"} /> : undefined}
      </Figure>
      <Figure
        address={linkOptions({ to: "/wal" })}
        label="Reader lag"
        value={home && (home.lag_seconds === null ? undefined : duration(home.lag_seconds * 1_000))}
        small={home?.lag_bytes && bytes(home.lag_bytes)}
      >
        <MinuteSpark of={(row) => row.lag_ms} ink="idle" />
      </Figure>
    </section>
  );
}

let seen: readonly number[] = [];

/** What this page has seen of the runs that are open: the database keeps no history of them. */
function OpenSpark({ home }: { home: HomeRow | undefined }) {
  const [values, show] = useState(seen);
  useEffect(() => {
    if (!home) return;
    seen = [...seen, Number(home.pending) + Number(home.running)].slice(-60);
    show(seen);
  }, [home]);
  return <Sparkline values={values} />;
}

/** A value of each minute of the last hour. */
function MinuteSpark({ of, ink }: { of: (row: MinuteRow) => number | null; ink: "running" | "idle" }) {
  const { rows } = useThroughput();
  return <Sparkline values={(rows ?? []).map(of)} ink={ink} />;
}
