/** Memory: what agents keep between their runs; people correct and withdraw it here. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";

import {
  MEMORY_FILTERS,
  type MemoryFilter,
  memoryParams,
  type MemoryRow,
  memorySuggestions,
  memoryTokens,
} from "../data/memory";
import { usePages } from "../data/pages";
import { useQueryOnce } from "../data/queries";
import { hasRole, useSession } from "../data/session";
import { useTitle } from "../frame/title";
import { FilterBar } from "../parts/filterbar";
import { More } from "../parts/more";
import { NeedsRole } from "../parts/needs-role";
import { Problem } from "../parts/notice";
import { Empty, Panel, Skeleton } from "../parts/panel";
import { Remember } from "./memory-edit";
import { MemoryEntry } from "./memory-entry";

const NONE: readonly { name: string; value: string }[] = [];

export default function Memories(): ReactNode {
  useTitle("Memory");
  const { open = "", ...search } = useSearch({ from: "/signed-in/memory" });
  const navigate = useNavigate();
  const roles = useSession()?.roles ?? [];
  const mayRead = hasRole(roles, "viewer", "developer");
  const mayWrite = hasRole(roles, "developer");
  const filter = Object.fromEntries(
    MEMORY_FILTERS.flatMap((name) => (search[name] ? [[name, search[name]]] : [])),
  ) as MemoryFilter;
  const known = useQueryOnce<{ name: string; value: string }>("memory_options", {}, { skip: !mayRead }).rows ?? NONE;
  const suggestions = useMemo(() => memorySuggestions(known), [known]);
  const [turn, setTurn] = useState(0);
  const [isAdding, add] = useState(false);
  const again = () => setTurn(turn + 1);
  const tokens = memoryTokens(filter);
  return (
    <div className="stack">
      <div className="head">
        <h1>Memory</h1>
        <span className="muted">what agents keep between their runs</span>
        {mayWrite && (
          <div className="actions">
            <button type="button" className="btn" onClick={() => add(true)}>
              Add a memory…
            </button>
          </div>
        )}
      </div>
      {mayRead ? (
        <>
          <FilterBar
            label="Filter memories"
            placeholder={tokens.length ? "" : "agent:triage  about:anna  state:replaced  …"}
            tokens={tokens}
            text={filter.q ?? ""}
            suggestions={suggestions}
            onChange={(next, q) =>
              void navigate({
                to: "/memory",
                search: {
                  ...Object.fromEntries(next.map((each) => [each.name, each.value])),
                  ...(q ? { q } : {}),
                },
                replace: true,
              })
            }
          />
          <List
            key={`${JSON.stringify(filter)} ${turn}`}
            filter={tokens.reduce((kept, each) => (each.invalid ? { ...kept, [each.name]: "" } : kept), filter)}
            open={open}
            toggle={(id) =>
              void navigate({
                to: "/memory",
                search: { ...filter, ...(id === open ? {} : { open: id }) },
                replace: true,
                resetScroll: false,
              })
            }
            again={again}
          />
        </>
      ) : (
        <NeedsRole lacks="viewer">
          <b className="strong">No memory is shown to you.</b> Reading what agents remember needs the role
        </NeedsRole>
      )}
      {isAdding && <Remember agent={filter.agent ?? ""} again={again} onClose={() => add(false)} />}
    </div>
  );
}

interface ListProps {
  filter: MemoryFilter;
  open: string;
  toggle: (id: string) => void;
  again: () => void;
}

function List({ filter, open, toggle, again }: ListProps) {
  const pages = usePages<MemoryRow>("memories", memoryParams(filter), { limit: 100, before: (row) => row.place });
  if (pages.isLoading)
    return (
      <Panel label="Memories" flush busy>
        <Skeleton rows={8} />
      </Panel>
    );
  if (pages.error && pages.rows.length === 0)
    return (
      <Panel title="Memories" flush>
        <Problem error={pages.error} again={pages.more} />
      </Panel>
    );
  const isFiltered = Object.keys(filter).length > 0;
  if (pages.rows.length === 0)
    return isFiltered ? (
      <Empty
        title="No memory matches"
        action={
          <Link className="btn small" to="/memory">
            Clear the filter
          </Link>
        }
      >
        {filter.state ? "All memories were searched." : "Those that are recalled were searched; others have a state."}
      </Empty>
    ) : (
      <Empty title="No agent remembers anything" command="select agent.remember('AGENT', to_jsonb('TEXT'::text));">
        Agents with the tool remember store here what they learn; people tell them what is so.
      </Empty>
    );
  return (
    <Panel label="Memories" flush>
      {pages.rows.map((row) => (
        <MemoryEntry key={row.id} row={row} isOpen={open === row.id} toggle={toggle} again={again} />
      ))}
      <More of={pages} />
    </Panel>
  );
}
