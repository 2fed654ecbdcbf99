/** What the list of runs shows when it has none. */
import type { RunFilter } from "../data/runs";
import { EmptyBody } from "../parts/panel";

export function Nothing({
  filter,
  isFiltered,
  setFilter,
}: {
  filter: RunFilter;
  isFiltered: boolean;
  setFilter: (filter: RunFilter) => void;
}) {
  if (!isFiltered)
    return (
      <EmptyBody title="No runs yet" command="walagent agents attach TABLE 'agent=NAME'">
        Attach an agent to a table. Each matching change will start a run here.
      </EmptyBody>
    );
  const names = Object.keys(filter) as (keyof RunFilter)[];
  return (
    <EmptyBody
      title="No run matches"
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
      All runs are hidden by {names.length === 1 ? "1 filter" : `${names.length} filters`}.
    </EmptyBody>
  );
}
