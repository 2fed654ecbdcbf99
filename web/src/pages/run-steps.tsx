/** The steps of a run in full: replies, calls with what they did, notes. */
import { Link } from "@tanstack/react-router";

import { bytes, duration, money, number, tableName } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { stepOfCall } from "../data/forks";
import { type RunDetail } from "../data/runs";
import { useApprovals } from "../data/approvals";
import { Call as CallView } from "../parts/call";
import { Icon } from "../parts/icon";
import { Payload } from "../parts/payload";
import { RowDiff } from "../parts/rowdiff";
import { Prose } from "../parts/prose";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { GoOn } from "./run-fork";
import { type Call, type Item, type Note, type Reply } from "./steps";

export function StepView({
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
          {step.content.rows && ` · of a request for ${number(step.content.rows)} runs`}
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
  unused: ["cancelled", "not carried out"],
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
