/** Saved filters of the list of runs. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { atLeast } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { isTextSearch } from "../data/older";
import { filterParams, type RunFilter } from "../data/runs";
import { removeFilter, type SavedFilter, saveFilter } from "../data/saved";
import { Dialog } from "../parts/confirm";
import { toast, toastProblem } from "../parts/toast";

function isSame(a: RunFilter, b: RunFilter): boolean {
  return JSON.stringify(filterParams(a)) === JSON.stringify(filterParams(b));
}

export function FilterTab({
  name,
  filter,
  current,
  saved,
}: {
  name: string;
  filter: RunFilter;
  current: RunFilter;
  saved?: SavedFilter;
}) {
  const isCurrent = isSame(filter, current);
  const isCounted = name !== "All";
  const count = useQueryOnce<{ count: string; is_least: boolean }>("runs_count", filterParams(filter), {
    every: 30_000,
    skip: !isCounted,
  }).rows?.[0];
  return (
    <span className="row tab">
      <Link
        to="/runs"
        search={filter}
        activeOptions={{ exact: true, includeSearch: true }}
        activeProps={{}}
        aria-current={isCurrent || undefined}
        title={saved && `Saved by ${saved.saved_by}`}
      >
        {name}{" "}
        {isCounted && count && (
          <span className="count">{atLeast(count.count, count.is_least || isTextSearch(filter))}</span>
        )}
      </Link>
      {saved?.is_removable && isCurrent && (
        <button
          type="button"
          className="copy"
          aria-label={`Remove the saved filter ${name}`}
          onClick={() => {
            removeFilter(saved.name)
              .then(() =>
                toast(
                  <>Removed the filter {name}.</>,
                  saved.is_mine
                    ? { action: { label: "Undo", key: "u", run: () => void saveFilter(saved).catch(toastProblem) } }
                    : {},
                ),
              )
              .catch(toastProblem);
          }}
        >
          ×
        </button>
      )}
    </span>
  );
}

export function SaveFilter({
  filter,
  saved,
  onClose,
}: {
  filter: RunFilter;
  saved: readonly SavedFilter[];
  onClose: () => void;
}) {
  const [name, setName] = useState("");
  const known = saved.find((each) => each.name === name.trim());
  const taken = known && !known.is_mine ? known.saved_by : undefined;
  const isReady = Boolean(name.trim()) && !taken;
  const save = () => {
    saveFilter({ name: name.trim(), query: new URLSearchParams(filter as Record<string, string>).toString() }).then(
      onClose,
      toastProblem,
    );
  };
  return (
    <Dialog
      title="Save filter"
      onClose={onClose}
      foot={
        <>
          <button type="button" className="btn primary" disabled={!isReady} onClick={save}>
            Save filter
          </button>
          <button type="button" className="btn quiet" onClick={onClose}>
            Do not save
          </button>
        </>
      }
    >
      <form
        className="body stack tight"
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) save();
        }}
      >
        <label className="field">
          Name
          <input
            type="text"
            value={name}
            maxLength={60}
            autoFocus
            onChange={(event) => setName(event.target.value)}
            placeholder="For example: Refunds over 100"
          />
        </label>
        <p className={taken ? "missing" : "soft"} role={taken ? "alert" : undefined}>
          {taken
            ? `${taken} saved a filter of this name; choose another.`
            : known
              ? "Your filter of this name is replaced."
              : "All who see the runs see it."}
        </p>
      </form>
    </Dialog>
  );
}
