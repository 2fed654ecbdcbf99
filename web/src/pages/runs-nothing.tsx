/** What the list of runs says when it has none, or has not searched all. */
import type { Searched } from "../data/reach";
import type { RunFilter } from "../data/runs";
import { minute, number } from "../data/format";
import { useZone } from "../data/zone";
import { useSeesRuns } from "../parts/own-only";
import { EmptyBody } from "../parts/panel";

/** How far text was searched, and a button that goes on; nothing where all of it was. */
export function HowFar({ searched }: { searched: Searched }) {
  const { reach, isSearching, error, search, stop } = searched;
  const zone = useZone();
  if (!reach || (!reach.is_partial && !error)) return null;
  return (
    <div className="howfar" role="status">
      <span>
        {isSearching ? "Searching older runs: back" : "Searched back"} to run {number(reach.oldest)}
        {reach.since && `, ${minute(reach.since, zone)}`}.{!isSearching && " Older runs were not searched."}
        {error && ` ${error.message}`}
      </span>
      <button type="button" className="btn small" onClick={isSearching ? stop : search}>
        {isSearching ? "Stop" : "Search older runs"}
      </button>
    </div>
  );
}

interface NothingProps {
  filter: RunFilter;
  /** Whether older runs were not searched. */
  isPartial: boolean;
  setFilter: (filter: RunFilter) => void;
}

export function Nothing({ filter, isPartial, setFilter }: NothingProps) {
  const seesRuns = useSeesRuns();
  const names = Object.keys(filter) as (keyof RunFilter)[];
  if (names.length === 0 && !seesRuns)
    return <EmptyBody title="No run of your own">Runs of your questions and of your threads appear here.</EmptyBody>;
  if (names.length === 0)
    return (
      <EmptyBody title="No runs yet" command="walagent agents attach TABLE 'agent=NAME'">
        Attach an agent to a table. Each matching change will start a run here.
      </EmptyBody>
    );
  return (
    <EmptyBody
      title={isPartial ? "No match so far" : "No run matches"}
      action={
        <div className="row wrap">
          {names.map((name) => (
            <button
              key={name}
              type="button"
              className="btn small"
              onClick={() => {
                setFilter({ ...filter, [name]: undefined });
              }}
            >
              Remove {name === "q" ? `“${filter.q}”` : `${name}:${filter[name]}`}
            </button>
          ))}
          <button type="button" className="btn quiet small" onClick={() => setFilter({})}>
            Clear all
          </button>
        </div>
      }
    >
      {isPartial
        ? "None of the runs that were searched matches."
        : `All runs are hidden by ${names.length === 1 ? "1 filter" : `${names.length} filters`}.`}
    </EmptyBody>
  );
}
