/** One run: its steps as a tree and in full, the change that caused it, and what it caused. */
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { type ReactNode, useEffect, useMemo, useState } from "react";

import { bytes, duration, money, number, tableName } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { stepOfCall } from "../data/forks";
import { useReplies } from "../data/replies";
import { badge, type Change, isOpen, type RunDetail, type RunState, useChain, useRun, useSteps } from "../data/runs";
import { useApprovals } from "../data/approvals";
import { useKeys } from "../frame/keyboard";
import { useTitle } from "../frame/title";
import { Call as CallView } from "../parts/call";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Notice } from "../parts/notice";
import { Of } from "../parts/of";
import { Panel, Skeleton } from "../parts/panel";
import { Payload } from "../parts/payload";
import { RowDiff, RowTable } from "../parts/rowdiff";
import { Prose } from "../parts/prose";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { Absent } from "./missing";
import { RunActions } from "./run-actions";
import { Reverted, RunChanges, RunReverts } from "./run-changes";
import { GoOn, RunForks } from "./run-fork";
import { lastList, type RowSeen } from "./runs-list";
import { StepTree } from "./step-tree";
import { type Call, type Item, items, type Note, type Reply, sqlValue } from "./steps";

export default function RunPage(): ReactNode {
  const { run: id } = useParams({ from: "/signed-in/runs/$run" });
  useTitle(`Run ${id}`);
  const { rows, isLoading } = useRun(id);
  const steps = useSteps(id);
  const run = rows[0];
  const shown = useMemo(() => items(steps.rows, run), [steps.rows, run]);
  const navigate = useNavigate();
  const at = lastList.ids.indexOf(id);
  const [allOpen, setAllOpen] = useState(0);
  const go = (by: number) => {
    const next = at < 0 ? undefined : lastList.ids[at + by];
    if (next) void navigate({ to: "/runs/$run", params: { run: next } });
  };
  useKeys({ "[": () => go(-1), "]": () => go(1), e: () => setAllOpen((n) => n + 1) });
  useOpenHash(shown.length > 0);
  if (isLoading) return <Skeleton rows={8} label={`Run ${id} is loading`} />;
  if (!run) return <Absent text={`Run ${id} does not exist, or you may not see it.`} to="/runs" action="Open runs" />;
  return (
    <>
      <div className="head">
        <p className="crumb">
          <Link to="/runs" search={lastList.search}>
            Runs
          </Link>
          {lastList.label && ` / ${lastList.label}`}{" "}
          {at >= 0 && (
            <span className="muted">
              (<kbd>[</kbd> previous, <kbd>]</kbd> next)
            </span>
          )}
        </p>
        <h1>Run {id}</h1>
        <State state={badge(run.state)} long />
        <p>
          <Of run={run} quoted />
        </p>
        <div className="actions">
          <Copy text={() => location.href} label="Copy link" className="btn quiet" icon="link" />
          <RunActions run={run} keys />
        </div>
      </div>
      <div className="stack">
        <Facts run={run} />
        <Ended run={run} />
        <RunReverts run={run} />
        <RunForks run={run} />
        <div className="runcols">
          <div className="stack">
            <Panel
              title="Steps"
              flush
              end={
                <button className="btn quiet small" type="button" onClick={() => setAllOpen((n) => n + 1)}>
                  {allOpen % 2 ? "Collapse all" : "Expand all"}
                </button>
              }
              foot={run.state === "waiting_approval" ? "The wait is not to scale." : undefined}
            >
              <StepTree run={run} items={shown} />
            </Panel>
            {run.kind !== "revert" && <Chain run={run} />}
          </div>
          <div className="stack">
            {shown.map((item) => (
              <StepView key={`${item.no}-${allOpen}`} item={item} run={run} items={shown} isOpen={allOpen % 2 === 1} />
            ))}
            <Asking run={run} />
            <Reverted steps={steps.rows} />
            <RunChanges run={run} />
            {shown.length === 0 && run.state !== "running" && run.kind !== "revert" && (
              <Panel label="No steps" className="empty">
                <p className="soft">{NOTHING[run.state] ?? "No step is recorded yet."}</p>
              </Panel>
            )}
          </div>
          <div className="stack">
            {run.change && run.kind !== "revert" && <ChangePanel run={run} change={run.change} />}
            {run.merged?.map((change, i) => (
              <ChangePanel key={i} run={run} change={change} title={`Change ${i + 2}, merged`} />
            ))}
            <Position run={run} />
          </div>
        </div>
      </div>
    </>
  );
}

const NOTHING: Partial<Record<RunState, string>> = {
  pending: "No worker has claimed it yet.",
  skipped: "It was skipped: no step was executed.",
  cancelled: "It was cancelled before its first step.",
  dead: "It ended before its first step.",
};

/** Scroll to the step that the address names, once it is there. */
function useOpenHash(isReady: boolean): void {
  useEffect(() => {
    if (isReady && location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView({ block: "start" });
  }, [isReady]);
}

function Facts({ run }: { run: RunDetail }) {
  const start = Date.parse(run.committed_at ?? run.created_at);
  const facts: [string, React.ReactNode][] = [];
  if (run.agent)
    facts.push([
      "Agent",
      <>
        <Link to="/agents/$agent" params={{ agent: run.agent }}>
          {run.agent}
        </Link>{" "}
        {run.version !== null && `v${run.version}`}
      </>,
    ]);
  if (run.model) facts.push(["Model", run.model]);
  facts.push([run.committed_at ? "Committed" : "Created", <Time at={run.committed_at ?? run.created_at} />]);
  if (run.commit_lsn)
    facts.push([
      "Commit LSN",
      <>
        <span className="lsn">{run.commit_lsn}</span> <span className="muted">change {run.ordinal}</span>
      </>,
    ]);
  if (run.started_at) facts.push(["Commit to first step", duration(Date.parse(run.started_at) - start)]);
  if (run.working_ms !== null) facts.push(["Working time", duration(run.working_ms)]);
  if (run.finished_at) facts.push(["Commit to end", duration(Date.parse(run.finished_at) - start)]);
  facts.push(["Tokens", `${number(run.input_tokens)} in, ${number(run.output_tokens)} out`]);
  facts.push(["Cost", Number(run.tokens) || run.cost !== null ? money(run.cost) : "none yet"]);
  facts.push(["Attempt", `${Math.max(run.attempt, 1)} of ${run.max_attempts}`]);
  return (
    <section className="panel" aria-label="Facts">
      <dl className="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** Why it failed or waits, above everything else. */
function Ended({ run }: { run: RunDetail }) {
  if (run.state === "failed" || run.state === "dead")
    return (
      <Notice tone="failed" icon="s-failed">
        <p className="strong">
          {run.error?.sqlstate && <code>{run.error.sqlstate}</code>}{" "}
          {run.error?.reason ?? run.what ?? "No reason was recorded."}
        </p>
        <p>
          {run.state === "dead"
            ? "Its attempts are used up."
            : "It was not retried: another attempt would fail in the same way."}
        </p>
      </Notice>
    );
  if (run.state === "needs_review")
    return (
      <Notice tone="person" icon="s-review">
        <p className="strong">The outcome of a call is unknown: {run.error?.reason ?? run.what}</p>
        <p>Its worker stopped before the answer. Find out whether it happened, then resolve the run.</p>
      </Notice>
    );
  if (run.state === "waiting_retry")
    return (
      <Notice tone="retry" icon="s-retry">
        <p className="strong">{run.error?.reason ?? run.what}</p>
        <p>
          {run.next_attempt_at && (
            <>
              The next attempt starts <Time at={run.next_attempt_at} />.
            </>
          )}
        </p>
      </Notice>
    );
  if (run.blocked_by && run.state === "pending")
    return (
      <Notice tone="info">
        <p>
          It waits for{" "}
          <Link to="/runs/$run" params={{ run: run.blocked_by }}>
            run {run.blocked_by}
          </Link>
          , which has the same ordering key <code>{run.ordering_key}</code>.
        </p>
      </Notice>
    );
  return null;
}

function StepView({
  item,
  run,
  items: all,
  isOpen,
}: {
  item: Item;
  run: RunDetail;
  items: readonly Item[];
  isOpen: boolean;
}) {
  switch (item.type) {
    case "reply":
      return (
        <ReplyView item={item} run={run} isFirst={all.find((each) => each.type === "reply") === item} isOpen={isOpen} />
      );
    case "call":
      return <CallPanel item={item} run={run} isOpen={isOpen} />;
    case "note":
      return <NoteView item={item} />;
  }
}

interface Prompt {
  system: string;
  messages: { role: string; text: string }[];
  tools: { name: string; description: string }[];
}

function ReplyView({ item, run, isFirst, isOpen }: { item: Reply; run: RunDetail; isFirst: boolean; isOpen: boolean }) {
  const { step } = item;
  const cost = step.cost !== null ? ` · ${money(step.cost)}` : "";
  const input = (step.input_tokens ?? 0) + (step.cached_tokens ?? 0);
  return (
    <section className="panel step" id={`s${item.no}`}>
      <header>
        <Icon name="agent" />
        <span className="no">{item.no}</span>
        <h2>{item.calls ? `Model called ${item.calls} ${item.calls === 1 ? "tool" : "tools"}` : "Model replied"}</h2>
        <span className="muted">
          {step.content.written_by ? `${step.content.written_by}, in place of the model` : item.model}
          {step.content.kept && " · kept"}
          {step.content.reused && ` · reply of run ${step.content.reused.run}`}
        </span>
        <span className="end muted">
          {number(input)} + {number(step.output_tokens ?? 0)} tokens{cost} · {duration(step.duration_ms ?? 0)}
        </span>
        <GoOn run={run} point={{ step: step.seq, args: null }} />
      </header>
      <div className="body">
        {isFirst && <Prompts run={run} isOpen={isOpen} />}
        {item.text && (
          <div className="stack tight">
            <h3>Reply</h3>
            <div className="said" dir="auto">
              <Prose text={item.text} />
            </div>
          </div>
        )}
        {(step.content.parts ?? []).some((part) => "thinking" in part) && (
          <p className="muted">The model’s thinking is not recorded in readable form.</p>
        )}
      </div>
    </section>
  );
}

function Prompts({ run, isOpen }: { run: RunDetail; isOpen: boolean }) {
  const { rows, error } = useQueryOnce<Prompt>("run_prompt", { run: run.id });
  const prompt = rows?.[0];
  if (!prompt) return error ? <p className="muted">The prompt is not available: {error.message}</p> : null;
  return (
    <>
      <Payload title="System prompt" text={prompt.system} open={isOpen} name={`run-${run.id}-system.txt`} />
      {prompt.messages.slice(0, 1).map((message, i) => (
        <Payload
          key={i}
          title="Message as sent"
          preview="change and row, framed as data"
          text={message.text}
          open
          name={`run-${run.id}-message.txt`}
        />
      ))}
      {prompt.tools.length > 0 && (
        <Payload
          title={`${prompt.tools.length} ${prompt.tools.length === 1 ? "tool" : "tools"} offered`}
          preview={prompt.tools.map((tool) => tool.name).join(", ")}
          text={JSON.stringify(prompt.tools, null, 2)}
          open={isOpen}
          name={`run-${run.id}-tools.json`}
        />
      )}
    </>
  );
}

const CALL_STATES: Record<Call["state"], [string, string]> = {
  committed: ["committed", "committed"],
  failed: ["failed", "failed"],
  rejected: ["rejected", "rejected"],
  approval: ["approval", "waiting for approval"],
  review: ["review", "outcome unknown"],
  running: ["running", "running"],
  planned: ["pending", "not executed yet"],
};

function CallPanel({ item, run, isOpen }: { item: Call; run: RunDetail; isOpen: boolean }) {
  const [state, word] = CALL_STATES[item.state];
  const approvals = useApprovals();
  const approval =
    item.state === "approval"
      ? approvals.rows.find((each) => each.run_id === run.id && each.tool === item.tool)
      : undefined;
  const result = item.result;
  const at = stepOfCall(result, item.intent, item.approval);
  const text =
    typeof result?.content.content === "string"
      ? result.content.content
      : JSON.stringify(result?.content.content ?? null, null, 2);
  return (
    <section className="panel step" id={`s${item.no}`}>
      <header>
        <Icon name="tool" />
        <span className="no">{item.no}</span>
        <h2>
          <code>{item.tool}</code>
        </h2>
        <State state={state} word={word} />
        {result?.content.kept && <span className="muted">kept</span>}
        <span className="end muted">
          {result ? (
            duration(result.duration_ms ?? 0)
          ) : item.approval ? (
            <>
              asked <Time at={item.approval.recorded_at} />
            </>
          ) : (
            ""
          )}
        </span>
        {at !== undefined && (
          <GoOn run={run} point={{ step: at, args: JSON.stringify(item.arguments ?? {}, null, 2) }} />
        )}
      </header>
      <div className="body">
        {item.arguments === null && item.raw !== undefined ? (
          <Payload title="Arguments that are no JSON" text={item.raw} open />
        ) : (
          <CallView tool={item.tool} args={item.arguments} className="code wrap pre" note={boundNote(run, item.tool)} />
        )}
        {item.decision && <Decision item={item} />}
        <Effect item={item} run={run} />
        {result && text !== "null" && text !== "" && (
          <Payload
            title={result.content.is_error ? "Error, as the model read it" : "Result, as the model read it"}
            text={text}
            size={bytes(text.length)}
            open={isOpen || text.length < 400}
            name={`run-${run.id}-${item.tool}.txt`}
          />
        )}
        {item.state === "approval" && (
          <div className="row wrap">
            <p className="grow soft">
              Nothing is held while it waits: no lease, no connection, no transaction.{" "}
              {approval && (
                <>
                  Expires <Time at={approval.expires_at} />.
                </>
              )}
            </p>
            {approval && (
              <Link className="btn primary" to="/approvals" search={{ approval: approval.id }}>
                Review call
              </Link>
            )}
          </div>
        )}
      </div>
    </section>
  );
}

/** Which arguments the model could not choose. */
function boundNote(run: RunDetail, tool: string): string {
  if (tool === "update_row" && run.relation) return `row bound: ${tableName(run.relation)} ${run.key}`;
  const bound = Object.entries(run.bound?.[tool] ?? {}).map(([name, column]) => `${name} = new.${column}`);
  return bound.length ? `bound: ${bound.join(", ")}` : "";
}

function Decision({ item }: { item: Call }) {
  const { decision, by, reason, edited } = item.decision?.content ?? {};
  return (
    <p className="soft">
      <State
        state={
          edited ? "edited" : decision === "approved" ? "approved" : decision === "expired" ? "expired" : "rejected"
        }
      />{" "}
      {by && <>by {by}</>} <Time at={item.decision?.recorded_at} />
      {reason && <>: “{reason}”</>}
    </p>
  );
}

/** What a call changed: as recorded, else what `update_row` wrote into the run's own row. */
function Effect({ item, run }: { item: Call; run: RunDetail }) {
  if (item.state !== "committed") return null;
  const recorded = item.result?.content.changes;
  if (recorded?.length)
    return (
      <div className="stack tight">
        <h3>
          Rows changed: {recorded.length} <span className="muted">· committed with this step</span>
        </h3>
        {recorded.map((each, i) => (
          <RowDiff key={i} title={`${each.relation} ${each.key ?? ""}`} before={each.old} after={each.new} />
        ))}
      </div>
    );
  if (item.tool !== "update_row" || !item.arguments || !run.change?.new) return null;
  const before = Object.fromEntries(Object.keys(item.arguments).map((name) => [name, run.change?.new?.[name] ?? null]));
  return (
    <div className="stack tight">
      <h3>
        Rows changed: 1 <span className="muted">· committed with this step</span>
      </h3>
      <RowDiff
        title={`${tableName(run.relation ?? "")} ${run.key}`}
        before={before}
        after={item.arguments}
        changedOnly={false}
      />
    </div>
  );
}

function NoteView({ item }: { item: Note }) {
  const isError = item.step.kind === "error";
  return (
    <section className="panel step" id={`s${item.no}`}>
      <header>
        <Icon name={isError ? "s-failed" : "edit"} />
        <span className="no">{item.no}</span>
        <h2>{isError ? "An attempt failed" : "Note"}</h2>
        <span className="end muted">
          <Time at={item.step.recorded_at} />
        </span>
      </header>
      <div className="body">
        <div className="said" dir="auto">
          <Prose text={item.text || "No text."} />
        </div>
      </div>
    </section>
  );
}

/** What the model writes now; the recorded reply takes its place. */
function Asking({ run }: { run: RunDetail }) {
  const writing = useReplies(run.state === "running" ? { run: run.id } : undefined);
  if (run.state !== "running") return null;
  return (
    <>
      {writing.map((each) => (
        <section className="panel step" key={each.reply} aria-busy="true">
          <header>
            <Icon name="agent" />
            <h2>Model is writing</h2>
            <span className="muted">{run.model}</span>
          </header>
          <div className="body">
            <div className="said" dir="auto">
              <Prose text={each.text} />
            </div>
          </div>
        </section>
      ))}
      <p className="row soft" role="status">
        <State state="running" bare word={`attempt ${run.attempt}: the model or a tool is working`} />
      </p>
    </>
  );
}

function Chain({ run }: { run: RunDetail }) {
  const { rows } = useChain(run.id);
  if (!rows) return null;
  const first = rows[0];
  return (
    <Panel title="Cause and effect" flush>
      <ol className="tree">
        {first && !first.cause_run && first.op && (
          <li>
            <Link to="/tables/$table" params={{ table: first.relation ?? "" }}>
              <Icon name="table" small />
              <span className="clip">{first.op.toUpperCase()} by the application</span>
              <span className="muted">depth 0</span>
            </Link>
          </li>
        )}
        {rows.map((row) => (
          <li key={row.id} className="sub">
            <Link
              to="/runs/$run"
              params={{ run: row.id }}
              activeProps={{}}
              aria-current={row.id === run.id ? "true" : undefined}
            >
              <Icon name={row.id === run.id ? "runs" : "step"} small className={row.id === run.id ? "" : "muted"} />
              <span className="clip">
                run {row.id}, {row.agent ?? "question"}
                {row.id !== run.id && row.relation && ` on ${tableName(row.relation)}`}
              </span>
              <span className="muted">{row.id === run.id ? "this run" : `depth ${row.depth}`}</span>
            </Link>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function ChangePanel({ run, change, title = "Change" }: { run: RunDetail; change: Change; title?: string }) {
  const { new: after, old: before, op } = change;
  const [compares, setCompares] = useState(false);
  return (
    <Panel
      id={title === "Change" ? "s0" : undefined}
      title={title}
      aside={<span className="chip mono">{op.toUpperCase()}</span>}
      end={change.hidden ? undefined : <Copy text={() => changeSql(change)} label="Copy as SQL" />}
      flush
      foot={
        run.relation && run.key ? (
          <button className="btn quiet small" type="button" onClick={() => setCompares(!compares)}>
            {compares ? "Hide the newest row" : "Compare with the newest row"}
          </button>
        ) : undefined
      }
    >
      {!before && !after ? null : op === "update" && before && after ? (
        <RowDiff title="column" before={before} after={after} />
      ) : op === "delete" ? (
        <RowTable row={before ?? {}} kind="delete" label="Deleted row" />
      ) : (
        <RowTable row={after ?? {}} kind={op === "insert" ? "insert" : "insert"} label="Row of the change" />
      )}
      {change.hidden ? (
        <p className="note muted">
          {change.hidden === 1 ? "1 column is" : `${change.hidden} columns are`} hidden: the role approver sees them,
          and a principal whose login can read them in the table.
        </p>
      ) : null}
      {change.unchanged?.length ? (
        <p className="note muted">{change.unchanged.join(", ")}: unchanged large values, which the WAL leaves out.</p>
      ) : null}
      {change.truncated ? (
        <p className="note muted">{Object.keys(change.truncated).join(", ")}: shortened, as the model got it.</p>
      ) : null}
      {compares && <RowNow run={run} before={after ?? before ?? {}} />}
    </Panel>
  );
}

function RowNow({ run, before }: { run: RunDetail; before: Record<string, unknown> }) {
  const { rows, error } = useQueryOnce<RowSeen>("row_now", { run: run.id });
  if (error) return <p className="note muted">{error.message}</p>;
  if (!rows) return <Skeleton rows={1} />;
  const seen = rows[0];
  if (!seen?.row)
    return (
      <p className="note muted">
        {seen?.op === "delete" ? "The row was deleted later." : "No later content of this row is known."}
      </p>
    );
  const now = Object.fromEntries(Object.entries(seen.row).filter(([name]) => name in before));
  if (seen.run_id === run.id) return <p className="note muted">No later change of this row started a run.</p>;
  return <RowDiff title={`as run ${seen.run_id} saw it`} before={before} after={now} changedOnly={false} />;
}

/** The change as a statement that a person can read, and run after a look at it. */
function changeSql(change: Change): string {
  const table = `${change.schema}.${change.table}`;
  const row = change.new ?? change.old ?? {};
  const names = Object.keys(row);
  if (change.op === "delete")
    return `delete from ${table} where ${names.map((name) => `${name} = ${sqlValue(row[name])}`).join(" and ")};`;
  return `insert into ${table} (${names.join(", ")})\nvalues (${names.map((name) => sqlValue(row[name])).join(", ")});`;
}

function Position({ run }: { run: RunDetail }) {
  const facts: [string, React.ReactNode, boolean?][] = [
    ["Commit LSN", run.commit_lsn, true],
    ["Ordinal", run.ordinal],
    ["Generation", run.generation || null],
    ["xid", run.xid, true],
    ["Ordering key", run.ordering_key, true],
    ["Matched by", run.matched_by],
    ["Runs as", run.run_as, true],
    ["Worker", run.worker, true],
    [
      "Lease",
      isOpen(run.state) ? (
        run.lease_expires_at ? (
          <Time at={run.lease_expires_at} />
        ) : (
          <span className="muted">none while waiting</span>
        )
      ) : null,
    ],
    [
      "Thread",
      run.thread && (
        <Link to="/threads/$thread" params={{ thread: run.thread }}>
          open
        </Link>
      ),
    ],
  ];
  return (
    <Panel title="Position" id="pos">
      <dl className="kv">
        {facts.map(([name, value, isMono]) =>
          value === null || value === undefined || value === "" ? null : (
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
