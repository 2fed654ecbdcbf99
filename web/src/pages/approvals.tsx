/** Approvals: the calls that wait at the left, the one that is read at the right, its decision below. */
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect } from "react";

import { isNarrow } from "../data/local";
import { type ApprovalRow, useApproval, useApprovalHistory, useApprovals, useDecided } from "../data/runs";
import { useSession } from "../data/session";
import { useKeys } from "../frame/keyboard";
import { useTitle } from "../frame/title";
import { ExactCall } from "../parts/call";
import { Decide } from "../parts/decide";
import { More } from "../parts/more";
import { Problem } from "../parts/notice";
import { Of } from "../parts/of";
import { EmptyBody, Panel, Skeleton } from "../parts/panel";
import { Prose } from "../parts/prose";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { Arguments, Binds, shortFirst, TheRow } from "./approvals-call";
import { Absent } from "./missing";
import { callText } from "./steps";

const TABS = ["mine", "history"] as const;
type Tab = (typeof TABS)[number];

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
  const shown: readonly ApprovalRow[] = tab ? history.rows : waiting;
  const at = shown.findIndex((row) => row.id === approval);
  const first = shown[0]?.id;
  const isLoading = tab ? history.isLoading : live.isLoading;
  useEffect(() => {
    // What is read stays until the person moves on, whatever others decide meanwhile.
    if (!approval && first && !isLoading && !isNarrow())
      void navigate({ to: "/approvals", search: { tab, approval: first }, replace: true, resetScroll: false });
  }, [approval, first, isLoading, tab, navigate]);
  const id = approval;
  const open = (next: ApprovalRow | undefined) =>
    next && void navigate({ to: "/approvals", search: { tab, approval: next.id }, resetScroll: true });
  const index = at < 0 ? 0 : at;
  useKeys({
    j: () => open(shown[Math.min(index + 1, shown.length - 1)]),
    k: () => open(shown[Math.max(index - 1, 0)]),
    ArrowDown: () =>
      document.activeElement?.closest(".side") ? open(shown[Math.min(index + 1, shown.length - 1)]) : false,
    ArrowUp: () => (document.activeElement?.closest(".side") ? open(shown[Math.max(index - 1, 0)]) : false),
  });
  return (
    <div className="triage">
      <div className={`side${id ? " hide-s" : ""}`} role="region" aria-label="Calls">
        <div className="item">
          <div className="top">
            <h1>Approvals</h1>
            <span className="muted">{waiting.length} wait</span>
          </div>
        </div>
        <nav className="tabs item" aria-label="Lists">
          <TabLink name="Waiting" count={waiting.length} isCurrent={!tab} />
          <TabLink name="Mine" tab="mine" isCurrent={tab === "mine"} />
          <TabLink name="History" tab="history" isCurrent={tab === "history"} />
        </nav>
        {isLoading ? (
          <Skeleton />
        ) : shown.length === 0 ? (
          <EmptyBody
            title={tab ? "No decision yet" : "Nothing waits for a person"}
            command={tab ? undefined : "select agent.attach('TABLE', 'agent=NAME, approve=[TOOL]')"}
          >
            {tab ? "Decisions appear here." : "Calls to a tool that needs approval will appear here."}
          </EmptyBody>
        ) : (
          shown.map((row) => <Item key={row.id} row={row} tab={tab} isCurrent={row.id === id} />)
        )}
        {tab && !isLoading && <More of={history} />}
        {!tab && waiting.length > 0 && (
          <div className="item muted">End of list. New calls appear below, never above the one you read.</div>
        )}
      </div>
      {id ? (
        <Detail
          key={id}
          id={id}
          index={index}
          total={shown.length}
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

function TabLink({ name, tab, count, isCurrent }: { name: string; tab?: Tab; count?: number; isCurrent: boolean }) {
  return (
    <Link to="/approvals" search={{ tab }} activeProps={{}} aria-current={isCurrent || undefined}>
      {name} {count ? <span className="count">{count}</span> : null}
    </Link>
  );
}

function Item({ row, tab, isCurrent }: { row: ApprovalRow; tab: Tab | undefined; isCurrent: boolean }) {
  return (
    <Link
      className="item"
      to="/approvals"
      search={{ tab, approval: row.id }}
      activeProps={{}}
      aria-current={isCurrent || undefined}
    >
      <span className="top">
        <code className="strong">{row.tool}</code>
        <span className="muted">
          <Time at={row.decided_at ?? row.asked_at} short />
        </span>
      </span>
      <span className="clip">
        {row.state !== "pending" && (
          <>
            <State state={row.edited ? "edited" : row.state} bare />{" "}
          </>
        )}
        {row.values}
      </span>
      <span className="clip muted">
        <Of run={row} quoted />
      </span>
    </Link>
  );
}

interface DetailProps {
  id: string;
  index: number;
  total: number;
  next: ApprovalRow | undefined;
  tab: Tab | undefined;
  open: (row: ApprovalRow | undefined) => void;
}

function Detail({ id, index, total, next, tab, open }: DetailProps) {
  const { rows, error, isLoading, again } = useApproval(id);
  const live = useApprovals();
  const current = live.rows.find((row) => row.id === id);
  const row = rows?.[0];
  const isGone = row?.state === "pending" && !live.isLoading && !current;
  useEffect(() => {
    if (isGone) again(); // somebody decided: say who
  }, [isGone, again]);
  if (error && !row)
    return (
      <section className="approve">
        <Panel title={`Approval ${id}`} flush>
          <Problem error={error} again={again} />
        </Panel>
      </section>
    );
  if (!row)
    return (
      <section className="approve">
        {isLoading ? (
          <Skeleton rows={6} label="The call is loading" />
        ) : (
          <Absent
            text={`Approval ${id} does not exist, or you may not see it.`}
            to="/approvals"
            action="Open approvals"
          />
        )}
      </section>
    );
  return (
    <section aria-label="Call" className="stack approve">
      <div className="head">
        <p className="crumb only-s">
          <Link to="/approvals" search={{ tab }}>
            Approvals
          </Link>{" "}
          / {index + 1} of {total}
        </p>
        <h2 className="big">
          {row.state === "pending" ? "May" : "The call of"}{" "}
          <Link to="/agents/$agent" params={{ agent: row.agent ?? "" }}>
            {row.agent ?? "the agent"}
          </Link>
          {row.state === "pending" ? " make this call?" : ""}
        </h2>
        {row.state !== "pending" && <State state={row.edited ? "edited" : row.state} />}
        <span className="muted">
          {index + 1} of {total}
        </span>
        <div className="actions">
          <span className="muted nowrap hide-s">
            <kbd>j</kbd> <kbd>k</kbd> next, previous
          </span>
          <Link className="btn quiet" to="/runs/$run" params={{ run: row.run_id }}>
            Run {row.run_id}
          </Link>
        </div>
      </div>
      <ExactCall tool={row.tool} args={shortFirst(row.shown)} className="call" isListed />
      <Arguments row={row} />
      <div className="grid-eq">
        <TheRow row={row} />
        <div className="stack">
          {row.said && (
            <Panel title="What the model said">
              <div className="said" dir="auto">
                <Prose text={row.said} />
              </div>
            </Panel>
          )}
          <Binds row={row} />
        </div>
      </div>
      {row.state === "pending" ? (
        <Decide row={row} again={again} done={() => open(next)} isGone={isGone} keys />
      ) : (
        <Decided row={row} />
      )}
      <Earlier tool={row.tool} id={row.id} />
    </section>
  );
}

function Decided({ row }: { row: ApprovalRow }) {
  return (
    <Panel title="Decision">
      <p>
        <State state={row.edited ? "edited" : row.state} />{" "}
        {row.decided_by ? <>by {row.decided_by}</> : row.state === "expired" ? "by nobody in time" : ""}{" "}
        <Time at={row.decided_at} />
      </p>
      {row.reason && <p className="soft">“{row.reason}”</p>}
    </Panel>
  );
}

function Earlier({ tool, id }: { tool: string; id: string }) {
  const { rows } = useApprovalHistory({ tool, limit: 6 });
  const shown = rows?.filter((row) => row.id !== id).slice(0, 5);
  if (!shown?.length) return null;
  return (
    <Panel
      title={`Earlier decisions on ${tool}`}
      end={
        <Link to="/approvals" search={{ tab: "history" }}>
          History
        </Link>
      }
      flush
    >
      <Table<ApprovalRow>
        label={`Earlier decisions on ${tool}`}
        rows={shown}
        rowKey={(row) => row.id}
        columns={[
          {
            title: "Decision",
            className: "inline nowrap",
            cell: (row) => <State state={row.edited ? "edited" : row.state} />,
          },
          {
            title: "Call",
            className: "c0",
            cell: (row) => (
              <span className="clip">
                <code>{callText(row.tool, row.edited ?? row.arguments)}</code>{" "}
                {row.reason && <span className="muted">“{row.reason}”</span>}
              </span>
            ),
          },
          { title: "By", className: "inline", cell: (row) => row.decided_by ?? <span className="muted">nobody</span> },
          {
            title: "When",
            label: "When",
            className: "num nowrap inline",
            cell: (row) => <Time at={row.decided_at ?? row.expires_at} />,
          },
        ]}
      />
    </Panel>
  );
}
