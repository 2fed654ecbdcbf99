/** Agents and their attachments: what they did today, and one of them in full. */
import { Link, linkOptions, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef, useState } from "react";

import type { Refusal } from "../data/agents";
import { duration, money, number } from "../data/format";
import { mutate } from "../data/mutate";
import { useQueryOnce } from "../data/queries";
import { hasRole, useSession } from "../data/session";
import { useTitle } from "../frame/title";
import { Confirm } from "../parts/confirm";
import { FilterBar } from "../parts/filterbar";
import { Icon } from "../parts/icon";
import { Name } from "../parts/name";
import { Problem } from "../parts/notice";
import { Empty, Panel, Skeleton } from "../parts/panel";
import { Payload } from "../parts/payload";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { toast, toastProblem } from "../parts/toast";
import { Absent } from "./missing";
import { RefusalNotice, Versions } from "./agents-versions";

interface AttachmentRow {
  id: string;
  agent: string;
  model: string;
  attachment: string | null;
  relation: string | null;
  ops: string[] | null;
  condition: string | null;
  run_as: string | null;
  version: number | null;
  state: string;
  paused_reason: string | null;
  /** A person; null if walagent paused it. */
  paused_by: string | null;
  backfilled: string | null;
  to_backfill: string | null;
  pending: string;
  waiting: string;
  failed: string;
  done_today: string;
  p50_ms: number | null;
  cost_today: string | null;
  columns: string[] | null;
  writes: string[] | null;
  ordering_key: string[] | null;
  max_depth: number | null;
  source: string | null;
  tools: { name: string; approval: boolean; bind: Record<string, string> | null }[];
  system_prompt: string;
  agent_version: number;
  refusal: Refusal;
}

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

function AttachmentState({ row }: { row: AttachmentRow }) {
  if (row.state === "backfill") {
    const total = Number(row.to_backfill ?? 0);
    return (
      <State
        state="backfill"
        word={total ? `backfill ${Math.floor((100 * Number(row.backfilled ?? 0)) / total)} %` : "backfill"}
      />
    );
  }
  if (row.state === "waits") return <State state="pending" word="waits for the reader" />;
  if (row.state === "not attached") return <State state="pending" word="not attached" />;
  return <State state={row.state} long />;
}

function Detail({ row, again }: { row: AttachmentRow; again: () => void }) {
  const mayChange = row.refusal === null;
  const [isAsking, ask] = useState<"pause" | "detach" | null>(null);
  const navigate = useNavigate();
  const detach = async () => {
    try {
      await mutate("detach", { name: row.attachment });
      toast(
        <>
          Detached <b className="strong">{row.attachment}</b>. {row.relation} starts no runs of it.
        </>,
      );
      await navigate({ to: "/agents" });
    } catch (error) {
      toastProblem(error);
    }
    again();
  };
  const act = async (name: "pause" | "resume") => {
    try {
      await mutate(name, { name: row.attachment });
      toast(
        <>
          {name === "pause" ? "Paused" : "Resumed"} <b className="strong">{row.attachment}</b>.
          {name === "pause" && Number(row.pending) > 0 && ` ${number(row.pending)} pending runs wait.`}
        </>,
        {
          action: {
            label: "Undo",
            key: "u",
            run: () =>
              void mutate(name === "pause" ? "resume" : "pause", { name: row.attachment }).then(again, toastProblem),
          },
        },
      );
      again();
    } catch (error) {
      toastProblem(error);
    }
  };
  const isPaused = row.state === "paused" || row.state === "broken";
  return (
    <Panel
      title={row.attachment ? `${row.attachment} on ${row.relation}` : row.agent}
      aside={<AttachmentState row={row} />}
      end={
        mayChange && (
          <span className="row wrap">
            {row.attachment && (
              <button
                type="button"
                className="btn small"
                onClick={() =>
                  isPaused ? void act("resume") : Number(row.pending) > 0 ? ask("pause") : void act("pause")
                }
              >
                <Icon name={isPaused ? "play" : "pause"} small />
                {isPaused ? "Resume" : "Pause"}
              </button>
            )}
            <Link className="btn small" to="/agents/$agent/edit" params={{ agent: row.agent }}>
              <Icon name="edit" small />
              Edit prompt
            </Link>
            {row.attachment && (
              <button type="button" className="btn small danger" onClick={() => ask("detach")}>
                Detach…
              </button>
            )}
          </span>
        )
      }
    >
      <div className="grid-3">
        <dl className="kv">
          <dt>Model</dt>
          <dd>{row.model}</dd>
          {row.columns && (
            <>
              <dt>Reads columns</dt>
              <dd className="mono">{row.columns.join(", ")}</dd>
            </>
          )}
          <dt>Writes</dt>
          <dd className="mono">{row.writes?.join(", ") || "nothing"}</dd>
          {row.run_as && (
            <>
              <dt>Runs as</dt>
              <dd className="mono">{row.run_as}</dd>
            </>
          )}
          {row.ordering_key && (
            <>
              <dt>Ordering key</dt>
              <dd className="mono">{row.ordering_key.join(", ")}</dd>
            </>
          )}
          <dt>Max depth</dt>
          <dd>{row.max_depth}</dd>
          <dt>Managed by</dt>
          <dd>{row.source === "file" ? "agents.yaml" : "SQL"}</dd>
          {row.paused_by && (
            <>
              <dt>Paused by</dt>
              <dd>{row.paused_by}</dd>
            </>
          )}
          {row.paused_reason && (
            <>
              <dt>{row.paused_by ? "Reason" : "Broken"}</dt>
              <dd>{row.paused_reason}</dd>
            </>
          )}
        </dl>
        <div className="stack tight">
          <h3>Tools</h3>
          <ul className="stack tight">
            {row.tools.map((tool) => (
              <li className="row wrap" key={tool.name}>
                <code>{tool.name}</code>
                {Object.entries(tool.bind ?? {}).map(([name, column]) => (
                  <span className="chip" key={name}>
                    {name} = new.{column}
                  </span>
                ))}
                {tool.approval && (
                  <span className="chip warn">
                    <Icon name="s-approval" small /> approval
                  </span>
                )}
              </li>
            ))}
            {row.tools.length === 0 && <li className="muted">none</li>}
          </ul>
        </div>
        <div className="stack tight">
          <h3>Versions</h3>
          <Versions agent={row.agent} version={row.agent_version} />
        </div>
      </div>
      {row.system_prompt && (
        <div className="pad">
          <Payload title="System prompt" text={row.system_prompt} name={`${row.agent}-prompt.txt`} />
        </div>
      )}
      {row.refusal === "role" || mayChange ? null : (
        <div className="pad">
          <RefusalNotice refusal={row.refusal} agent={row.agent} />
        </div>
      )}
      {isAsking === "detach" && (
        <Confirm
          title={`Detach ${row.attachment}?`}
          action={`Detach ${row.attachment}`}
          keep="Keep it attached"
          danger
          onConfirm={detach}
          onClose={() => ask(null)}
        >
          <p>
            Changes of {row.relation} start no more runs of {row.agent}.{" "}
            {isPaused
              ? "It is paused, so its pending runs are cancelled. "
              : Number(row.pending) > 0
                ? `Its ${number(row.pending)} pending runs are still executed. `
                : ""}
            An agent of the same name that nothing else uses goes with it.
          </p>
        </Confirm>
      )}
      {isAsking === "pause" && (
        <Confirm
          title={`Pause ${row.attachment}?`}
          action={`Pause ${row.attachment}`}
          keep="Keep it active"
          onConfirm={() => act("pause")}
          onClose={() => ask(null)}
        >
          <p>{number(row.pending)} pending runs wait until it is resumed. New changes are still recorded as runs.</p>
        </Confirm>
      )}
    </Panel>
  );
}
