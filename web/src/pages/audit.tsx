/** The audit: who did what to what, newest first, and whether the chain is as it was written. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";

import {
  AUDIT_FILTERS,
  type AuditCount,
  type AuditFilter,
  auditParams,
  type AuditRow,
  detailLine,
  KINDS,
  total,
} from "../data/audit";
import { csv } from "../data/csv";
import { type Suggestion, type Token, wrongValue } from "../data/filter";
import { atLeast, day, number } from "../data/format";
import { usePages } from "../data/pages";
import { useQueryOnce } from "../data/queries";
import { hasRole, useSession } from "../data/session";
import { useZone } from "../data/zone";
import { useTitle } from "../frame/title";
import { FilterBar } from "../parts/filterbar";
import { Icon } from "../parts/icon";
import { More } from "../parts/more";
import { NeedsRole } from "../parts/needs-role";
import { Problem } from "../parts/notice";
import { Empty, Panel, Skeleton } from "../parts/panel";
import { download } from "../parts/payload";
import { VerifyChain } from "./audit-chain";
import { Entry } from "./audit-entry";

const SINCE = ["today", "1h", "24h", "7d"];

export default function Audit(): ReactNode {
  useTitle("Audit");
  const zone = useZone();
  const { open = "", ...search } = useSearch({ from: "/signed-in/audit" });
  const navigate = useNavigate();
  const go = (filter: AuditFilter, entry = "") =>
    void navigate({ to: "/audit", search: { ...filter, open: entry }, replace: entry !== open, resetScroll: false });
  const filter = Object.fromEntries(
    AUDIT_FILTERS.flatMap((name) => (search[name] ? [[name, search[name]]] : [])),
  ) as AuditFilter;
  const mayRead = hasRole(useSession()?.roles ?? [], "auditor");
  const reach = useQueryOnce<{ entries: string; since: string | null }>(
    "audit_reach",
    {},
    { every: 10_000, skip: !mayRead },
  ).rows?.[0];
  const [seen, setSeen] = useState<{ entries: number; turn: number } | null>(null);
  const entries = Number(reach?.entries ?? 0);
  if (reach && !seen) setSeen({ entries, turn: 0 });
  const fresh = seen ? entries - seen.entries : 0;
  const [isVerifying, verify] = useState(false);
  return (
    <div className="stack">
      <div className="head">
        <h1>Audit</h1>
        {reach && (
          <span className="muted">
            {number(entries)} {entries === 1 ? "entry" : "entries"}
            {reach.since && ` since ${day(reach.since, zone)}`}
          </span>
        )}
        {mayRead && (
          <div className="actions">
            <button type="button" className="btn" onClick={() => verify(true)}>
              Verify the chain…
            </button>
          </div>
        )}
      </div>
      {mayRead ? (
        <>
          <Filters filter={filter} change={(next) => go(next)} />
          {fresh > 0 && (
            <button type="button" className="newrows" onClick={() => setSeen({ entries, turn: (seen?.turn ?? 0) + 1 })}>
              <Icon name="up" small />
              {number(fresh)} new {fresh === 1 ? "entry" : "entries"}
            </button>
          )}
          <Entries
            key={`${JSON.stringify(filter)} ${seen?.turn}`}
            filter={filter}
            open={open}
            toggle={(entry) => go(filter, entry === open ? "" : entry)}
          />
        </>
      ) : (
        <NeedsRole lacks="auditor">
          <b className="strong">No entry is shown to you.</b> The audit needs the role
        </NeedsRole>
      )}
      {isVerifying && <VerifyChain onClose={() => verify(false)} />}
    </div>
  );
}

/** What of a filter the database can read; the rest is shown struck through. */
function usable(filter: AuditFilter): AuditFilter {
  return Object.fromEntries(Object.entries(filter).filter(([name, value]) => !wrongValue(name, value)));
}

function Filters({ filter, change }: { filter: AuditFilter; change: (filter: AuditFilter) => void }) {
  const { did = "", ...others } = usable(filter);
  const counts = useQueryOnce<AuditCount>("audit_counts", auditParams(others), { every: 30_000 }).rows;
  const suggestions = useMemo(() => suggestionsOf(counts ?? []), [counts]);
  const tokens: Token[] = AUDIT_FILTERS.flatMap((name) => {
    const value = filter[name];
    if (name === "q" || !value) return [];
    const invalid = wrongValue(name, value);
    return invalid ? { name, value, invalid } : { name, value };
  });
  const matching = counts && total(counts, did);
  const pill = (name: string, of: string, isCurrent: boolean) => {
    const found = counts && total(counts, of);
    return (
      <Link
        key={name}
        className="pill"
        to="/audit"
        search={{ ...filter, did: of }}
        activeProps={{}}
        aria-current={isCurrent || undefined}
      >
        {name} {found && <span className="n">{atLeast(found.count, found.isLeast)}</span>}
      </Link>
    );
  };
  return (
    <>
      <FilterBar
        label="Filter the audit"
        placeholder={tokens.length ? "" : "who:anna  did:approved  object:triage  …"}
        tokens={tokens}
        text={filter.q ?? ""}
        suggestions={suggestions}
        onChange={(next, q) =>
          change({ ...Object.fromEntries(next.map((each) => [each.name, each.value])), ...(q ? { q } : {}) })
        }
        end={
          Object.keys(filter).length > 0 && matching ? (
            <span className="muted nowrap hide-s">{atLeast(matching.count, matching.isLeast)} match</span>
          ) : undefined
        }
      />
      <nav className="pills" aria-label="Kind">
        {pill("All", "", !did)}
        {KINDS.map((each) => pill(each.name, each.did, did === each.did))}
      </nav>
      {matching?.isLeast && <p className="muted">Counted are the newest 10,000 entries that match.</p>}
    </>
  );
}

function suggestionsOf(counts: readonly AuditCount[]): Suggestion[] {
  const actions = [...new Set(counts.map((each) => each.did))].sort();
  const words = [...new Set(actions.flatMap((each) => each.split(".")))].sort();
  return [
    { name: "who", values: [...new Set(counts.map((each) => each.who))].sort(), hint: "who did it" },
    { name: "did", values: [...words, ...actions], hint: "a noun, a verb, or both" },
    { name: "object", hint: "what was acted on, or what the detail names" },
    { name: "since", values: SINCE, hint: "today, 1h, 24h, 7d, or a time such as 2026-11-24T10:00Z" },
    { name: "until", hint: "a time, or how long ago" },
    { name: "entry", hint: "number of an entry" },
  ];
}

interface EntriesProps {
  filter: AuditFilter;
  open: string;
  toggle: (entry: string) => void;
}

function Entries({ filter, open, toggle }: EntriesProps) {
  const pages = usePages<AuditRow>("audit", auditParams(usable(filter)), { limit: 100, before: (row) => row.number });
  if (pages.isLoading)
    return (
      <Panel label="Entries" flush busy>
        <Skeleton rows={8} />
      </Panel>
    );
  if (pages.error && pages.rows.length === 0)
    return (
      <Panel title="Entries" flush>
        <Problem error={pages.error} again={pages.more} />
      </Panel>
    );
  const isFiltered = Object.keys(filter).length > 0;
  if (pages.rows.length === 0)
    return (
      <Empty
        title={isFiltered ? "No entry matches" : "Nothing was done yet"}
        action={
          isFiltered ? (
            <Link className="btn small" to="/audit">
              Clear the filter
            </Link>
          ) : undefined
        }
      >
        {isFiltered
          ? "The whole audit was searched."
          : "What people, agents and walagent change, decide and are refused is recorded here."}
      </Empty>
    );
  return (
    <Panel
      label="Entries"
      flush
      foot={
        <button type="button" className="btn quiet small" onClick={() => exportEntries(pages.rows)}>
          <Icon name="dl" small />
          Export the {number(pages.rows.length)} loaded entries
        </button>
      }
    >
      {pages.rows.map((row) => (
        <Entry key={row.number} row={row} filter={filter} isOpen={open === row.number} toggle={toggle} />
      ))}
      <More of={pages} />
    </Panel>
  );
}

const COLUMNS = ["number", "at", "principal", "login", "action", "object"] as const;

function exportEntries(rows: readonly AuditRow[]): void {
  const cells = rows.map((row) => [...COLUMNS.map((name) => row[name]), detailLine(row.detail), row.digest]);
  download("audit.csv", csv([...COLUMNS, "detail", "digest"], cells), "text/csv");
}
