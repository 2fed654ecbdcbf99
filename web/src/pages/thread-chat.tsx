/** The chat of a thread: events in the order of the database, calls that wait, what agents do now. */
import { Link, useSearch } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { textOf } from "../data/exact";
import { bytes } from "../data/format";
import { mutate } from "../data/mutate";
import { readQuery } from "../data/queries";
import { useReplies, type Writing } from "../data/replies";
import { Refused } from "../data/request";
import { useApproval, useApprovals } from "../data/approvals";
import { hasRole, useSession } from "../data/session";
import {
  invitation,
  type Member,
  type Thread,
  type ThreadEvent,
  threadShape,
  titleOf,
  useEvents,
  useTurns,
} from "../data/threads";
import { Initial } from "../parts/avatar";
import { Call, ExactCall } from "../parts/call";
import { Composer, Log, type Sending, Unsent } from "../parts/chat";
import { Copy } from "../parts/copy";
import { Decide } from "../parts/decide";
import { Icon } from "../parts/icon";
import { Problem } from "../parts/notice";
import { Skeleton } from "../parts/panel";
import { Payload } from "../parts/payload";
import { Prose } from "../parts/prose";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";
import { EditThread } from "./thread-edit";
import { callId, happened } from "./thread-words";

const MOST = 32_000; // characters of a message
const FACES = 6;

interface ChatProps {
  thread: Thread;
  members: readonly Member[];
}

export function Chat({ thread, members }: ChatProps) {
  const me = useSession()?.principal ?? "";
  const [earlier, setEarlier] = useState<readonly ThreadEvent[]>([]);
  const { rows: events, isLoading } = useEvents(thread.id, earlier);
  const busy = useTurns(thread.id).rows.filter((each) => each.state === "running");
  const [sending, setSending] = useState<readonly Sending[]>([]);
  const stored = new Set(events.map((each) => each.id));
  const send = async (message: Sending, how: "post" | "interrupt" = "post") => {
    setSending((all) => [...all.filter((each) => each.id !== message.id), message]);
    try {
      await mutate(how, { thread: thread.id, text: message.text, id: message.id });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      setSending((all) => all.map((each) => (each.id === message.id ? { ...each, problem: error.message } : each)));
    }
  };
  const more = async () => {
    try {
      setEarlier([
        ...earlier,
        ...(await readQuery<ThreadEvent>("thread_events", {
          thread: thread.id,
          before: events[0]?.number,
          limit: 200,
        })),
      ]);
    } catch (error) {
      toastProblem(error);
    }
  };
  return (
    <section className="chat" aria-label={titleOf(thread)}>
      <Head thread={thread} members={members} me={me} />
      {isLoading ? (
        <div className="log">
          <Skeleton rows={5} label="Messages are loading" />
        </div>
      ) : (
        <Messages
          thread={thread}
          members={members}
          me={me}
          events={events}
          sending={sending.filter((each) => !stored.has(each.id))}
          onMore={more}
          onAgain={(each) => void send({ ...each, problem: null })}
        />
      )}
      <Foot
        thread={thread}
        onSend={(text) => void send({ id: crypto.randomUUID(), text, problem: null }).catch(toastProblem)}
        onInterrupt={
          busy.length
            ? (text) => void send({ id: crypto.randomUUID(), text, problem: null }, "interrupt").catch(toastProblem)
            : undefined
        }
      >
        {busy.map((each) => (
          <Stop key={each.id} turn={each.id} agent={each.agent} />
        ))}
      </Foot>
    </section>
  );
}

function Head({ thread, members, me }: ChatProps & { me: string }) {
  const search = useSearch({ strict: false });
  const [isEditing, setEditing] = useState(false);
  const title = (each: Member) => [each.name, each.name === me ? "you" : "", each.role].filter(Boolean).join(", ");
  return (
    <header>
      <Link className="btn quiet icon only-m" aria-label="Threads" to="/threads" search={{ archived: search.archived }}>
        <Icon name="left" />
      </Link>
      <h1 className="clip" dir="auto" title={titleOf(thread)}>
        {titleOf(thread)}
      </h1>
      <span className="people" role="img" aria-label={`Members: ${members.map(title).join("; ")}`}>
        {members.slice(0, FACES).map((each) => (
          <Initial key={each.name} name={each.name} isAgent={each.kind === "agent"} small title={title(each)} />
        ))}
        {members.length > FACES && <span className="muted">+{members.length - FACES}</span>}
      </span>
      {thread.state !== "active" && <State state={thread.state === "paused" ? "paused" : "done"} word={thread.state} />}
      <span className="end row">
        {thread.is_member && <Copy text={invitation(thread.id)} label="Invite" className="btn small" icon="link" />}
        <button
          className="btn quiet small icon"
          type="button"
          aria-label={thread.is_member || thread.can_manage ? "Edit thread" : "Members"}
          onClick={() => setEditing(true)}
        >
          <Icon name={thread.is_member || thread.can_manage ? "edit" : "user"} small />
        </button>
        <Link
          className="btn quiet small only-s"
          to="/threads/$thread"
          params={{ thread: thread.id }}
          search={{ ...search, view: "computer" }}
        >
          Computer
        </Link>
      </span>
      {isEditing && <EditThread thread={thread} members={members} onClose={() => setEditing(false)} />}
    </header>
  );
}

interface MessagesProps {
  thread: Thread;
  members: readonly Member[];
  me: string;
  events: readonly ThreadEvent[];
  sending: readonly Sending[];
  onMore: () => void;
  onAgain: (message: Sending) => void;
}

function Messages({ thread, members, me, events, sending, onMore, onAgain }: MessagesProps) {
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

function Stop({ turn, agent }: { turn: string; agent: string }) {
  const roles = useSession()?.roles ?? [];
  const [isSending, setSending] = useState(false);
  if (!hasRole(roles, "approver")) return null;
  const stop = async () => {
    setSending(true);
    try {
      await mutate("cancel", { run: turn, reason: "stopped in the thread" });
      toast(`Stopped ${agent}.`, { state: "cancelled" });
    } catch (error) {
      toastProblem(error);
    }
    setSending(false);
  };
  return (
    <button type="button" className="btn small" disabled={isSending} onClick={stop}>
      Stop {agent}
    </button>
  );
}

interface FootProps {
  thread: Thread;
  onSend: (text: string) => void;
  onInterrupt: ((text: string) => void) | undefined;
  children: ReactNode;
}

function Foot({ thread, onSend, onInterrupt, children }: FootProps) {
  const change = async (name: string) => {
    try {
      await mutate(name, { thread: thread.id }, [threadShape("thread", thread.id)]);
    } catch (error) {
      toastProblem(error);
    }
  };
  const isTired = thread.agent_turns >= thread.max_agent_turns;
  return (
    <>
      {thread.state === "paused" && (
        <p className="bar row" role="status">
          <Icon name="s-paused" small /> Paused: agents take no turns.
          {thread.can_manage && (
            <button type="button" className="btn small end" onClick={() => change("resume_thread")}>
              Resume
            </button>
          )}
        </p>
      )}
      {isTired && thread.state === "active" && (
        <p className="bar row" role="status">
          <Icon name="s-retry" small /> Agents took {thread.agent_turns} turns among themselves. They go on when a
          person writes.
        </p>
      )}
      {thread.can_post ? (
        <Composer name={`thread.${thread.id}`} onSend={onSend} onInterrupt={onInterrupt} most={MOST}>
          {children}
        </Composer>
      ) : (
        <p className="bar row">
          <Icon name="lock" small />
          {thread.state === "archived"
            ? "Archived: nothing can be posted."
            : thread.is_member
              ? "Your token is for reading."
              : "You read this thread and are no member of it."}
          {thread.state === "archived" && thread.can_manage && (
            <button type="button" className="btn small end" onClick={() => change("resume_thread")}>
              Resume
            </button>
          )}
        </p>
      )}
    </>
  );
}
