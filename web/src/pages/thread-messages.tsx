/** The messages of a thread: what was said, done and asked, and who writes now. */
import { Link } from "@tanstack/react-router";

import { textOf } from "../data/exact";
import { bytes } from "../data/format";
import { useReplies, type Writing } from "../data/replies";
import { useApproval, useApprovals } from "../data/approvals";
import { type Member, type Thread, type ThreadEvent, useTurns } from "../data/threads";
import { Initial } from "../parts/avatar";
import { Call, ExactCall } from "../parts/call";
import { Log, type Sending, Unsent } from "../parts/chat";
import { Decide } from "../parts/decide";
import { Problem } from "../parts/notice";
import { Payload } from "../parts/payload";
import { Prose } from "../parts/prose";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { callId, happened } from "./thread-words";

interface MessagesProps {
  thread: Thread;
  members: readonly Member[];
  me: string;
  events: readonly ThreadEvent[];
  sending: readonly Sending[];
  onMore: () => void;
  onAgain: (message: Sending) => void;
}

export function Messages({ thread, members, me, events, sending, onMore, onAgain }: MessagesProps) {
  const turns = useTurns(thread.id);
  const approvals = useApprovals();
  const runs = new Set(turns.rows.map((each) => each.id));
  const asked = approvals.rows.filter((each) => runs.has(each.run_id));
  const busy = turns.rows.filter((each) => each.state === "running" && each.kind !== "summary");
  const writing = useReplies({ thread: thread.id });
  const results = new Map(events.filter((each) => each.type === "tool_result").map((each) => [callId(each), each]));
  const calls = new Set(events.filter((each) => each.type === "tool_use").map(callId));
  const roles = new Map(members.map((each) => [each.name, each.role]));
  const shown = events.filter((each) => each.type !== "tool_result" || !calls.has(callId(each)));
  return (
    <Log sending={sending.length} count={shown.length + sending.length + busy.length + asked.length}>
      {Number(events[0]?.number ?? 1) > 1 && (
        <button type="button" className="btn small fit" onClick={onMore}>
          Show earlier messages
        </button>
      )}
      {shown.map((each) =>
        each.type === "system" ? (
          <p className="sys" key={each.number}>
            {happened(each, me)} · <Time at={each.created_at} />
          </p>
        ) : (
          <Message
            key={each.number}
            event={each}
            role={roles.get(each.author)}
            isMine={each.author === me}
            result={each.type === "tool_use" ? results.get(callId(each)) : undefined}
          />
        ),
      )}
      {sending.map((each) => (
        <Unsent
          key={each.id}
          avatar={<Initial name={me} isAgent={false} />}
          name={me}
          message={each}
          onAgain={() => onAgain(each)}
        />
      ))}
      {busy.map((each) => (
        <Busy
          key={each.id}
          turn={each.id}
          agent={each.agent}
          writing={writing.filter((one) => String(one.run) === each.id)}
        />
      ))}
      {asked.map((each) => (
        <Asked key={each.id} id={each.id} keys={asked.length === 1} />
      ))}
    </Log>
  );
}

/** An agent whose turn is executed, with what it has written so far. */
function Busy({ turn, agent, writing }: { turn: string; agent: string; writing: readonly Writing[] }) {
  return (
    <article className="msg" aria-live="off">
      <Initial name={agent} isAgent />
      <div className="by">
        <b>{agent}</b>
        <State state="running" bare word="is writing" />
        <Link className="muted" to="/runs/$run" params={{ run: turn }}>
          run {turn}
        </Link>
      </div>
      {writing.map((each) => (
        <div className="bubble" dir="auto" key={each.reply} aria-busy="true">
          <Prose text={each.text} />
          <span className="caret" aria-hidden="true" />
        </div>
      ))}
    </article>
  );
}

interface MessageProps {
  event: ThreadEvent;
  role: string | undefined;
  isMine: boolean;
  result: ThreadEvent | undefined;
}

function Message({ event, role, isMine, result }: MessageProps) {
  const isAgent = event.author_kind === "agent";
  const isText = event.type === "text";
  return (
    <article className={`msg${isText ? "" : " act"}${isMine ? " mine" : ""}`}>
      <Initial name={event.author} isAgent={isAgent} />
      <div className="by">
        <b>{event.author}</b>
        <span className={`chip ${isAgent ? "agent" : "person"}`}>{isMine ? "you" : (role ?? "left")}</span>
        <span className="muted">
          <Time at={event.created_at} />
        </span>
        {event.run_id && (
          <Link className="muted" to="/runs/$run" params={{ run: event.run_id }}>
            run {event.run_id}
          </Link>
        )}
      </div>
      <div className="bubble" dir="auto">
        {isText ? <Said data={event.data} /> : <Did event={event} result={result} />}
      </div>
    </article>
  );
}

function Said({ data }: { data: Record<string, unknown> }) {
  const { kind, to } = data as Record<string, string | undefined>;
  return (
    <>
      {kind && (
        <>
          <span className="chip">{kind.replaceAll("_", " ")}</span>{" "}
        </>
      )}
      {to && <span className="muted">to {to} </span>}
      <Prose text={textOf(data.text)} />
      {data.cut_off === true && <span className="muted"> … cut off</span>}
      {data.cut !== undefined && <span className="muted"> … shortened: it has {bytes(Number(data.cut))}</span>}
    </>
  );
}

/** What an agent called, and what it got. */
function Did({ event, result }: { event: ThreadEvent; result: ThreadEvent | undefined }) {
  const answer = event.type === "tool_result" ? event : result;
  const content = answer?.data.content;
  const text = typeof content === "string" ? content : JSON.stringify(content ?? null, null, 2);
  const input = event.data.input;
  return (
    <div className="stack tight">
      {event.type === "tool_use" &&
        (event.data.cut === undefined ? (
          <Call className="did" tool={String(event.data.name)} args={(input ?? {}) as Record<string, unknown>} />
        ) : (
          <p>
            called <code>{String(event.data.name)}</code>; its arguments have {bytes(Number(event.data.cut))}
          </p>
        ))}
      {answer && answer.data.cut === undefined && content !== undefined && content !== "" && (
        <Payload title={answer.data.is_error ? "failed" : "answer"} text={text} name={`event-${answer.number}.txt`} />
      )}
    </div>
  );
}

/** A call that waits, with every argument, and its decision. */
function Asked({ id, keys }: { id: string; keys: boolean }) {
  const { rows, error, again } = useApproval(id);
  const row = rows?.[0];
  if (!row) return error ? <Problem error={error} again={again} /> : null;
  const question = row.is_question ? textOf(row.arguments.question) : null;
  return (
    <article className="msg asked" aria-label={`Call of ${row.agent ?? "an agent"}`}>
      <Initial name={row.agent ?? "?"} isAgent />
      <div className="by">
        <b>{row.agent}</b>
        <State state={row.is_question ? "question" : "approval"} long bare />
        <Link className="muted" to="/approvals" search={{ approval: id }}>
          approval {id}
        </Link>
      </div>
      <div className="stack tight">
        {question !== null ? (
          <div className="bubble" dir="auto">
            <Prose text={question} />
          </div>
        ) : (
          <ExactCall tool={row.tool} args={row.shown} className="call" />
        )}
        <Decide row={row} again={again} done={again} keys={keys} />
      </div>
    </article>
  );
}
