/** One call: what would be executed, what it rests on, its decision. */
import { Link } from "@tanstack/react-router";
import { useEffect } from "react";

import { type ApprovalRow, useApproval, useApprovalHistory, useApprovals } from "../data/approvals";
import { ExactCall } from "../parts/call";
import { Decide } from "../parts/decide";
import { Problem } from "../parts/notice";
import { Panel, Skeleton } from "../parts/panel";
import { Prose } from "../parts/prose";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { Arguments, Binds, shortFirst, TheRow } from "./approvals-call";
import { Absent } from "./missing";
import { callText } from "./steps";

interface DetailProps {
  id: string;
  /** Its place in the list; none: it is not in it. */
  place: string | undefined;
  next: ApprovalRow | undefined;
  tab: string | undefined;
  open: (row: ApprovalRow | undefined) => void;
}

export function Detail({ id, place, next, tab, open }: DetailProps) {
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
          {place && `/ ${place}`}
        </p>
        <h2 className="big">
          {row.state === "pending" ? "May" : "The call of"}{" "}
          <Link to="/agents/$agent" params={{ agent: row.agent ?? "" }}>
            {row.agent ?? "the agent"}
          </Link>
          {row.state === "pending" ? " make this call?" : ""}
        </h2>
        {row.state !== "pending" && <State state={row.edited ? "edited" : row.state} />}
        <span className="muted">{place}</span>
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
