/** Approvals: the calls that wait at the left, the one that is read at the right, its decision below. */
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { visible } from "../data/visible";
import { type ReactNode, useEffect, useState } from "react";

import { minute, tableName } from "../data/format";
import { isNarrow } from "../data/local";
import { useQueryOnce } from "../data/queries";
import { type ApprovalDetail, type ApprovalRow, useApproval, useApprovalHistory, useApprovals } from "../data/runs";
import { useSession } from "../data/session";
import { useZone } from "../data/zone";
import { useKeys } from "../frame/keyboard";
import { useTitle } from "../frame/title";
import { Shown, ExactCall } from "../parts/call";
import { Copy } from "../parts/copy";
import { Decide } from "../parts/decide";
import { Icon } from "../parts/icon";
import { Problem } from "../parts/notice";
import { Of } from "../parts/of";
import { EmptyBody, Panel, Skeleton } from "../parts/panel";
import { Blank, Cell } from "../parts/rowdiff";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { Absent } from "./missing";
import type { RowSeen } from "./runs-list";
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
  const history = useApprovalHistory({ limit: 100 }, tab !== "history" && tab !== "mine");
  const decided = (history.rows ?? []).filter((row) => tab !== "mine" || row.decided_by === me);
  const waiting = live.rows;
  const shown: readonly ApprovalRow[] = tab ? decided : waiting;
  const at = shown.findIndex((row) => row.id === approval);
  const first = shown[0]?.id;
  const isLoading = tab ? history.isLoading && !history.rows : live.isLoading;
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
      <ExactCall tool={row.tool} args={row.shown} className="call" />
      <Arguments row={row} />
      <div className="grid-eq">
        <TheRow row={row} />
        <div className="stack">
          {row.said && (
            <Panel title="What the model said">
              <p className="said" dir="auto">
                {visible(row.said)}
              </p>
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

function Arguments({ row }: { row: ApprovalDetail }) {
  return (
    <Panel
      title="Arguments"
      aside={<span className="muted">all of them, in full</span>}
      end={<Copy text={row.arguments_text} label="Copy as JSON" />}
      flush
    >
      {row.shown.length === 0 ? (
        <p className="note muted">The call has no arguments.</p>
      ) : (
        <Table
          label="Arguments"
          className=""
          rows={row.shown}
          rowKey={(arg) => arg.name}
          columns={[
            { title: "Name", className: "mono", cell: (arg) => visible(arg.name) },
            { title: "Type", className: "mono muted", cell: (arg) => row.types?.[arg.name] ?? arg.kind },
            {
              title: "Value",
              className: "mono strong full",
              cell: (arg) => (
                <>
                  {arg.kind !== "string" ? <Shown {...arg} /> : arg.text === "" ? <Blank /> : visible(arg.text)}
                  {row.edited &&
                    arg.bound === null &&
                    JSON.stringify(row.arguments[arg.name]) !== JSON.stringify(row.edited[arg.name]) && (
                      <span className="muted"> was {visible(JSON.stringify(row.arguments[arg.name]))}</span>
                    )}
                </>
              ),
            },
            {
              title: "From",
              cell: (arg) =>
                arg.bound !== null ? (
                  <>
                    <Icon name="lock" small /> bound to <code>new.{arg.bound}</code>; the model cannot change it
                  </>
                ) : (
                  <>
                    <Icon name="agent" small /> chosen by the model
                  </>
                ),
            },
          ]}
        />
      )}
    </Panel>
  );
}

function TheRow({ row }: { row: ApprovalDetail }) {
  const [which, show] = useState<"change" | "now">("change");
  const now = useQueryOnce<RowSeen>("row_now", { run: row.run_id }, { skip: which === "change" });
  const then = row.content ?? {};
  const current = now.rows?.[0]?.row;
  const shown = which === "change" ? then : (current ?? {});
  return (
    <Panel
      title="The row"
      aside={
        <span className="mono muted">
          {tableName(row.relation ?? "")} {row.key}
        </span>
      }
      end={
        <span className="toggle" role="group" aria-label="Which state of the row">
          <button type="button" aria-pressed={which === "change"} onClick={() => show("change")}>
            at the change
          </button>
          <button type="button" aria-pressed={which === "now"} onClick={() => show("now")}>
            newest
          </button>
        </span>
      }
      foot="Text in a row is data from outside. It cannot approve anything."
      flush
    >
      {which === "now" && !now.rows && !now.error ? (
        <Skeleton />
      ) : which === "now" && !current ? (
        <p className="note muted">{now.error?.message ?? "No later content of this row is known."}</p>
      ) : Object.keys(shown).length === 0 ? (
        <p className="note muted">This run has no row.</p>
      ) : (
        <table className="rowdiff">
          <tbody>
            {Object.entries(shown).map(([name, value]) => {
              const isChanged = which === "now" && name in then && JSON.stringify(then[name]) !== JSON.stringify(value);
              return (
                <tr key={name}>
                  <td>{name}</td>
                  <td className={isChanged ? "now" : undefined}>
                    {isChanged && "+ "}
                    <Cell value={value} /> {isChanged && <span className="muted">changed since</span>}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

const EFFECTS: Record<string, string> = {
  read: "reads only",
  transactional: "transactional: commits with its step",
  idempotent: "outside the database, repeatable with its key",
  unsafe: "outside the database, cannot be taken back",
};

function Binds({ row }: { row: ApprovalDetail }) {
  const zone = useZone();
  const facts: [string, ReactNode, boolean?][] = [
    [
      "Digest",
      <>
        sha256 {shortDigest(row.digest)} <Copy text={row.digest} />
      </>,
      true,
    ],
    ["Runs as", row.run_as, true],
    ["Effect", row.effect && (EFFECTS[row.effect] ?? row.effect)],
    ["Function", row.function && <code>{row.function}</code>],
    ["Risk", row.risk ?? "not set: counts as critical"],
    ["Asked", <Time at={row.asked_at} />],
    ["Expires", <Time at={row.expires_at} text={minute(row.expires_at, zone)} />],
    ["Four eyes", row.four_eyes && row.requested_by.length ? `${row.requested_by.join(", ")} cannot decide` : null],
  ];
  return (
    <Panel title="What the decision binds">
      <dl className="kv">
        {facts.map(([name, value, isMono]) =>
          value === null || value === "" ? null : (
            <div className="contents" key={name}>
              <dt>{name}</dt>
              <dd className={isMono ? "mono" : undefined}>{value}</dd>
            </div>
          ),
        )}
      </dl>
    </Panel>
  );
}

function shortDigest(digest: string): string {
  const hex = digest.replace(/^sha256:/, "");
  return hex.length > 20 ? `${hex.slice(0, 4)} ${hex.slice(4, 8)} ${hex.slice(8, 12)} … ${hex.slice(-4)}` : hex;
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
