/** Agents and their attachments: what they did today, and one of them in full. */
import { Link, linkOptions, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";

import type { AttachmentRow } from "../data/agents";
import { duration, money, number } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { hasRole, useSession } from "../data/session";
import { useTitle } from "../frame/title";
import { FilterBar } from "../parts/filterbar";
import { Icon } from "../parts/icon";
import { Name } from "../parts/name";
import { Problem } from "../parts/notice";
import { Empty, Panel, Skeleton } from "../parts/panel";
import { Table } from "../parts/table";
import { AttachmentState, Detail } from "./agents-detail";
import { Absent } from "./missing";

export default function Agents(): ReactNode {
  useTitle("Agents");
  const { agent } = useParams({ strict: false });
  const { q = "" } = useSearch({ strict: false });
  const navigate = useNavigate();
  const mayDevelop = hasRole(useSession()?.roles ?? [], "developer");
  const { rows, error, again } = useQueryOnce<AttachmentRow>("attachments", {}, { every: 5_000 });
  const text = q.toLowerCase();
  const shown = (rows ?? []).filter((row) =>
    [row.agent, row.relation, row.model, row.state].join(" ").toLowerCase().includes(text),
  );
  const selected = shown.filter((row) => row.agent === agent);
  const detail = useRef<HTMLDivElement>(null);
  const isShown = selected.length > 0;
  // What was opened is below the list: show it.
  useEffect(() => {
    if (isShown) detail.current?.scrollIntoView({ block: "nearest" });
  }, [agent, isShown]);
  const agents = new Set((rows ?? []).map((row) => row.agent)).size;
  const attachments = (rows ?? []).filter((row) => row.attachment).length;
  return (
    <div className="stack">
      <div className="head">
        <h1>Agents</h1>
        {rows && (
          <span className="muted">
            {agents} {agents === 1 ? "agent" : "agents"}, {attachments}{" "}
            {attachments === 1 ? "attachment" : "attachments"}
          </span>
        )}
        {mayDevelop && (
          <div className="actions">
            <Link className="btn" to="/attach">
              <Icon name="plus" small />
              Attach…
            </Link>
          </div>
        )}
      </div>
      <FilterBar
        className="search-w"
        label="Filter attachments"
        placeholder="agent, table, model or state"
        text={q}
        onChange={(_, next) =>
          void navigate({
            ...(agent ? linkOptions({ to: "/agents/$agent", params: { agent } }) : linkOptions({ to: "/agents" })),
            search: { q: next },
            replace: true,
          })
        }
      />
      {error && !rows ? (
        <Panel title="Attachments" flush>
          <Problem error={error} again={again} />
        </Panel>
      ) : rows === null ? (
        <Panel label="Attachments" flush busy>
          <Skeleton />
        </Panel>
      ) : rows.length === 0 ? (
        <Empty title="No agent" command="walagent agents attach TABLE 'agent=NAME'">
          An agent is a model, a prompt and tools; attached to a table, it acts on each matching change.
        </Empty>
      ) : agent && !rows.some((row) => row.agent === agent) ? (
        <Absent text={`Agent ${agent} does not exist, or you may not see it.`} to="/agents" action="Open agents" />
      ) : (
        <Panel label="Attachments" flush className={selected.length ? "hide-s" : ""}>
          <Table<AttachmentRow>
            label="Attachments"
            rows={shown}
            rowKey={(row) => row.id}
            columns={[
              {
                title: "Agent",
                className: "nowrap",
                cell: (row) => (
                  <>
                    <Link
                      className="strong"
                      to="/agents/$agent"
                      params={{ agent: row.agent }}
                      search={{ q }}
                      resetScroll={false}
                      activeProps={{}}
                    >
                      <Name text={row.agent} />
                    </Link>{" "}
                    {row.version !== null && <span className="muted">v{row.version}</span>}
                  </>
                ),
              },
              { title: "On", className: "nowrap", cell: (row) => <On row={row} /> },
              {
                title: "Condition",
                className: "hide-s cond",
                cell: (row) =>
                  row.condition ? (
                    <code className="lines2" title={row.condition}>
                      {row.condition}
                    </code>
                  ) : (
                    <span className="muted">{row.attachment ? "every row" : ""}</span>
                  ),
              },
              { title: "State", className: "inline", cell: (row) => <AttachmentState row={row} /> },
              { title: "Pending", label: "Pending", className: "num hide-m", cell: (row) => number(row.pending) },
              {
                title: "Done today",
                label: "Done today",
                className: "num inline",
                cell: (row) => (
                  <Link to="/runs" search={{ agent: row.agent, since: "today" }}>
                    {number(row.done_today)}
                  </Link>
                ),
              },
              {
                title: "Failed",
                label: "Failed",
                className: "num inline",
                cell: (row) =>
                  Number(row.failed) ? (
                    <Link to="/runs" search={{ agent: row.agent, state: "failed,dead" }}>
                      {number(row.failed)}
                    </Link>
                  ) : (
                    <span className="muted">0</span>
                  ),
              },
              {
                title: "Waiting",
                label: "Waiting",
                className: "num hide-m",
                cell: (row) => (Number(row.waiting) ? <Link to="/approvals">{number(row.waiting)}</Link> : "0"),
              },
              {
                title: "p50",
                label: "p50",
                className: "num hide-m",
                cell: (row) => (row.p50_ms === null ? <span className="muted">none</span> : duration(row.p50_ms)),
              },
              {
                title: "Cost today",
                label: "Cost today",
                className: "num inline",
                cell: (row) => (row.cost_today === null ? <span className="muted">none</span> : money(row.cost_today)),
              },
            ]}
          />
        </Panel>
      )}
      <div className="stack" ref={detail}>
        {selected.length > 0 && (
          <p className="crumb only-s">
            <Link to="/agents">Agents</Link> / {agent}
          </p>
        )}
        {selected.map((row) => (
          <Detail key={row.id} row={row} again={again} />
        ))}
      </div>
    </div>
  );
}

function On({ row }: { row: AttachmentRow }) {
  if (!row.attachment) return <span className="muted">no table</span>;
  return (
    <>
      <Name className="mono" text={row.relation} />{" "}
      {row.ops?.map((op) => (
        <span className="chip mono" key={op}>
          {op.toUpperCase()}
        </span>
      ))}
    </>
  );
}
