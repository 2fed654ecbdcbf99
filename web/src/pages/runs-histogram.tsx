/** Above the list of runs: how many there are in each state, and when. */
import { Link, linkOptions } from "@tanstack/react-router";
import { useMemo } from "react";

import { atLeast, clock, minute } from "../data/format";
import { bars, byState, type Part } from "../data/histogram";
import { useQueryOnce } from "../data/queries";
import { badge, filterParams, type RunFilter, type Search } from "../data/runs";
import { useZone } from "../data/zone";
import { Chart } from "../parts/chart";
import { State } from "../parts/state";

/** A state more in the filter, or less. */
function toggled(filter: RunFilter, state: string): RunFilter {
  const chosen = (filter.state ?? "").split(",").filter(Boolean);
  const next = chosen.includes(state) ? chosen.filter((each) => each !== state) : [...chosen, state];
  return { ...filter, state: next.join(",") || undefined };
}

export function Histogram({ filter, search, skip }: { filter: RunFilter; search: Search; skip: boolean }) {
  const { counts, drawn, isLeast } = useHistogram(search, skip);
  const zone = useZone();
  if (counts.length === 0) return null;
  const isDay = Date.parse(drawn.at(-1)?.until ?? "") - Date.parse(drawn[0]?.at ?? "") < 86_400_000;
  const chosen = (filter.state ?? "").split(",");
  return (
    <div className="counts">
      <nav className="facets" aria-label="States">
        {counts.map(([state, runs]) => (
          <Link
            key={state}
            to="/runs"
            search={toggled(filter, state)}
            activeProps={{}}
            aria-current={chosen.includes(state) || undefined}
            title={isLeast ? "Of the newest 10,000 runs that match" : undefined}
          >
            <State state={badge(state)} bare /> <span className="count">{atLeast(runs, isLeast)}</span>
          </Link>
        ))}
        {isLeast && <span className="muted nowrap">in the newest 10,000</span>}
      </nav>
      {drawn.length > 0 && (
        <Chart
          isSmall
          label={`Runs by time${isLeast ? ", of the newest 10,000" : ""}`}
          labels={drawn.map((each) => (isDay ? clock : minute)(each.at, zone))}
          series={[
            { name: "other states", ink: "running", values: drawn.map((each) => each.other) },
            { name: "failed, dead", ink: "failed", values: drawn.map((each) => each.failed) },
          ]}
          link={(i) => linkOptions({ to: "/runs", search: { ...filter, since: drawn[i]?.at, until: drawn[i]?.until } })}
        />
      )}
    </div>
  );
}

/** Of all states: a chosen state hides no count of another one. */
function useHistogram(search: Search, skip: boolean) {
  const { state = "", ...others } = search;
  const asked = useQueryOnce<Part>("runs_histogram", filterParams(others), { every: 15_000, skip });
  return useMemo(() => {
    const parts = asked.rows ?? [];
    return {
      counts: byState(parts),
      drawn: bars(parts, state.split(",").filter(Boolean)),
      isLeast: parts.some((each) => each.is_least),
    };
  }, [asked.rows, state]);
}
