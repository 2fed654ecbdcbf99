/** Approvals: the calls that wait at the left, the one that is read at the right, its decision below. */
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect, useState } from "react";

import { isNarrow } from "../data/local";
import { filterFrom, MOST, narrowed, sorted } from "../data/queue";
import { type ApprovalRow, useApprovals, useDecided } from "../data/approvals";
import { useSession } from "../data/session";
import { useKeys } from "../frame/keyboard";
import { useTitle } from "../frame/title";
import { More } from "../parts/more";
import { EmptyBody, Skeleton } from "../parts/panel";
import { toast } from "../parts/toast";
import { Detail } from "./approvals-detail";
import { Many } from "./approvals-many";
import { Item, Narrow, Tabs } from "./approvals-queue";

const TABS = ["mine", "history"] as const;

export default function Approvals(): ReactNode {
  useTitle("Approvals");
  const search = useSearch({ strict: false });
  const { approval = search.approval } = useParams({ strict: false });
  const tab = TABS.find((each) => each === search.tab);
  const navigate = useNavigate();
  const live = useApprovals();
  const me = useSession()?.principal;
  const history = useDecided(tab === "mine" ? me : undefined, !tab);
  const waiting = live.rows;
  const queue = sorted(narrowed(waiting, filterFrom(search.q ?? "", waiting)), search.sort ?? "");
  const shown: readonly ApprovalRow[] = tab ? history.rows : queue;
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [isReading, setReading] = useState(false); // on a phone, where the list is a page of its own
  const [deciding, setDeciding] = useState<readonly ApprovalRow[] | null>(null); // they stay while they are decided
  const chosen = deciding ?? (tab ? [] : waiting.filter((row) => selected.has(row.id)));
  const at = shown.findIndex((row) => row.id === approval);
  const first = shown[0]?.id;
  const isLoading = tab ? history.isLoading : live.isLoading;
  const { q, sort } = search;
  useEffect(() => {
    // What is read stays until the person moves on, whatever others decide meanwhile.
    if (!approval && first && !isLoading && !isNarrow())
      void navigate({ to: "/approvals", search: { tab, q, sort, approval: first }, replace: true, resetScroll: false });
  }, [approval, first, isLoading, tab, q, sort, navigate]);
  const open = (next: ApprovalRow | undefined) =>
    next && void navigate({ to: "/approvals", search: { tab, q, sort, approval: next.id }, resetScroll: true });
  const index = at < 0 ? 0 : at;
  const next = () => open(shown[Math.min(index + 1, shown.length - 1)]);
  const previous = () => open(shown[Math.max(index - 1, 0)]);
  const isInList = () => document.activeElement?.closest(".side");
  const select = (ids: readonly string[], on: boolean) => {
    const all = new Set(selected);
    for (const each of ids)
      if (on) all.add(each);
      else all.delete(each);
    if (all.size > MOST) toast(`At most ${MOST} calls are decided together.`, { state: "failed" });
    setSelected(new Set([...all].slice(0, MOST)));
  };
  useKeys({
    j: next,
    k: previous,
    ArrowDown: () => (isInList() ? next() : false),
    ArrowUp: () => (isInList() ? previous() : false),
    x: () => (!tab && approval && at >= 0 ? select([approval], !selected.has(approval)) : false),
    "Mod+a": () =>
      !tab && queue.length
        ? select(
            queue.map((row) => row.id),
            true,
          )
        : false,
    Escape: () => (chosen.length ? setSelected(new Set()) : false),
  });
  return (
    <div className="triage">
      <div
        className={`side${(chosen.length ? isReading : approval) ? " hide-s" : ""}`}
        role="region"
        aria-label="Calls"
      >
        <div className="item">
          <div className="top">
            <h1>Approvals</h1>
            <span className="muted">{waiting.length} wait</span>
          </div>
        </div>
        <Tabs waiting={waiting.length} tab={tab} />
        {!tab && waiting.length > 1 && (
          <Narrow
            rows={waiting}
            shown={queue}
            selected={selected}
            select={select}
            q={q ?? ""}
            sort={sort ?? ""}
            approval={approval}
          />
        )}
        {isLoading ? (
          <Skeleton />
        ) : shown.length === 0 ? (
          <Nothing tab={tab} isNarrowed={waiting.length > 0} />
        ) : (
          shown.map((row) => (
            <Item
              key={row.id}
              row={row}
              search={{ tab, q, sort }}
              isCurrent={row.id === approval && !chosen.length}
              isSelected={selected.has(row.id)}
              select={tab || waiting.length < 2 ? undefined : select}
            />
          ))
        )}
        {tab && !isLoading && <More of={history} />}
        {chosen.length > 0 && (
          <div className="item only-s pinned">
            <button type="button" className="btn primary" onClick={() => setReading(true)}>
              Read {chosen.length === 1 ? "the call" : `the ${chosen.length} calls`}
            </button>
          </div>
        )}
        {!tab && shown.length > 0 && (
          <div className="item muted">End of list. New calls appear below, never above the one you read.</div>
        )}
      </div>
      {chosen.length > 0 ? (
        <Many
          key={chosen.map((row) => row.id).join()}
          rows={chosen}
          clear={() => setSelected(new Set())}
          select={select}
          hold={(on) => setDeciding(on ? chosen : null)}
          isReading={isReading}
          back={() => setReading(false)}
        />
      ) : approval ? (
        <Detail
          key={approval}
          id={approval}
          place={at < 0 ? undefined : `${at + 1} of ${shown.length}`}
          next={shown[index + 1] ?? shown[index - 1]}
          tab={tab}
          open={open}
        />
      ) : (
        <div className="approve hide-s" />
      )}
    </div>
  );
}

function Nothing({ tab, isNarrowed }: { tab: string | undefined; isNarrowed: boolean }) {
  if (!tab && isNarrowed)
    return <EmptyBody title="No call that waits matches">All calls that wait were searched.</EmptyBody>;
  return (
    <EmptyBody
      title={tab ? "No decision yet" : "Nothing waits for a person"}
      command={tab ? undefined : "select agent.attach('TABLE', 'agent=NAME, approve=[TOOL]')"}
    >
      {tab ? "Decisions appear here." : "Calls to a tool that needs approval will appear here."}
    </EmptyBody>
  );
}
