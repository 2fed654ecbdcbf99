/** The chat: events in the order of the database, and what agents do at the moment. */
import { type KeyboardEvent, useEffect, useLayoutEffect, useRef, useState } from "react";

import { Refused } from "../src/data/request";
import { State } from "../src/parts/state";
import { Time } from "../src/parts/time";
import { toastProblem } from "../src/parts/toast";
import { Avatar } from "./avatar";
import { ingest, type Thread, type ThreadEvent, type User, useRows } from "./data";
import type { Member } from "./thread";
import { did, happened, isHidden, nameOf } from "./words";

const NEAR = 64; // pixels from the end within which the log follows
type Users = ReadonlyMap<string, User>;

/** A message that is on its way, or was not accepted. */
interface Sending {
  id: string;
  text: string;
  problem: string | null;
}

interface ChatProps {
  user: User;
  thread: Thread;
  members: readonly Member[];
  users: Users;
}

export function Chat({ user, thread, members, users }: ChatProps) {
  const { rows } = useRows("events");
  const events = rows.filter((each) => each.thread_id === thread.id).toSorted((a, b) => a.number - b.number);
  const [sending, setSending] = useState<readonly Sending[]>([]);
  const stored = new Set(events.map((each) => each.id));
  const waiting = sending.filter((each) => !stored.has(each.id));
  const send = async (message: Sending) => {
    setSending((all) => [...all.filter((each) => each.id !== message.id), message]);
    const row = { id: message.id, thread_id: thread.id, user_id: user.id, type: "text", data: { text: message.text } };
    try {
      await ingest({ type: "insert", relation: "events", row });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      setSending((all) => all.map((each) => (each.id === message.id ? { ...each, problem: error.message } : each)));
    }
  };
  return (
    <>
      <Log key={thread.id} user={user} thread={thread.id} members={members} users={users} events={events} sending={waiting} onAgain={(each) => void send({ ...each, problem: null })} />
      <Composer onSend={(text) => void send({ id: crypto.randomUUID(), text, problem: null }).catch(toastProblem)} />
    </>
  );
}

interface LogProps {
  user: User;
  thread: string;
  members: readonly Member[];
  users: Users;
  events: readonly ThreadEvent[];
  sending: readonly Sending[];
  onAgain: (message: Sending) => void;
}

function Log({ user, thread, members, users, events, sending, onAgain }: LogProps) {
  const log = useRef<HTMLDivElement>(null);
  const [isBehind, setBehind] = useState(false);
  const { rows: processes } = useRows("processes");
  const busy = processes.filter((each) => each.thread_id === thread && each.state === "running");
  const shown = events.filter((each) => !isHidden(each));
  const count = shown.length + sending.length + busy.length;
  const follows = useRef(true);
  const toEnd = () => log.current?.scrollTo({ top: log.current.scrollHeight });
  useLayoutEffect(() => {
    if (follows.current) toEnd();
    else setBehind(true);
  }, [count]);
  useEffect(() => {
    const resized = new ResizeObserver(() => follows.current && toEnd());
    if (log.current) resized.observe(log.current);
    return () => resized.disconnect();
  }, []);
  const scrolled = () => {
    const at = log.current;
    if (!at) return;
    follows.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR;
    if (follows.current) setBehind(false);
  };
  const roles = new Map(members.map((each) => [each.user.id, each.membership.role]));
  return (
    <>
      <div className="log" role="log" aria-label="Messages" tabIndex={0} ref={log} onScroll={scrolled}>
        {shown.map((each) =>
          each.type === "system" ? (
            <p className="sys" key={each.id}>
              {happened(each, users, user)} · <Time at={each.inserted_at} />
            </p>
          ) : (
            <Message key={each.id} event={each} users={users} role={roles.get(each.user_id)} isMine={each.user_id === user.id} earlier={events.slice(0, each.number - 1)} />
          ),
        )}
        {sending.map((each) => (
          <Unsent key={each.id} user={user} message={each} onAgain={() => onAgain(each)} />
        ))}
        {busy.map((each) => (
          <article className="msg" key={each.id}>
            <Avatar user={users.get(each.user_id) ?? { name: "?", type: "agent", avatar_url: null }} />
            <div className="by">
              <b>{nameOf(users, each.user_id)}</b>
              <State state="running" word="thinking" bare />
            </div>
          </article>
        ))}
      </div>
      {isBehind && (
        <button type="button" className="btn small later" onClick={toEnd}>
          New messages
        </button>
      )}
    </>
  );
}

interface MessageProps {
  event: ThreadEvent;
  users: Users;
  role: string | undefined;
  isMine: boolean;
  earlier: readonly ThreadEvent[];
}

function Message({ event, users, role, isMine, earlier }: MessageProps) {
  const author = users.get(event.user_id);
  const isAct = event.data.name === "extract_facts" || event.type === "tool_result";
  return (
    <article className={`msg${isAct ? " act" : ""}${isMine ? " mine" : ""}`}>
      <Avatar user={author ?? { name: "?", type: "human", avatar_url: null }} />
      <div className="by">
        <b>{author?.name ?? "somebody"}</b>
        <span className={`chip ${author?.type === "agent" ? "agent" : "person"}`}>{isMine ? "you" : (role ?? "left")}</span>
        <span className="muted">
          <Time at={event.inserted_at} />
        </span>
      </div>
      <div className="bubble">{event.type === "text" ? String(event.data.text) : did(event, users, earlier)}</div>
    </article>
  );
}

function Unsent({ user, message, onAgain }: { user: User; message: Sending; onAgain: () => void }) {
  return (
    <article className="msg mine">
      <Avatar user={user} />
      <div className="by">
        <b>{user.name}</b>
        <span className="muted">{message.problem ? `not sent: ${message.problem}` : "sending"}</span>
        {message.problem && (
          <button type="button" className="btn small" onClick={onAgain}>
            Send again
          </button>
        )}
      </div>
      <div className="bubble">{message.text}</div>
    </article>
  );
}

function Composer({ onSend }: { onSend: (text: string) => void }) {
  const [text, setText] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.focus(), []);
  useLayoutEffect(() => {
    const at = area.current;
    if (!at) return;
    at.style.height = "auto";
    at.style.height = `${Math.min(at.scrollHeight + 2, innerHeight / 5)}px`;
  }, [text]);
  const send = () => {
    if (!text.trim()) return;
    onSend(text.trim());
    setText("");
    area.current?.focus();
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label className="vh" htmlFor="message">
        Message
      </label>
      <textarea id="message" ref={area} rows={2} maxLength={4000} placeholder="Write to the thread" value={text} onChange={(event) => setText(event.target.value)} onKeyDown={pressed} />
      <div className="row">
        <span className="muted">
          <kbd>↵</kbd> send, <kbd>⇧↵</kbd> new line
        </span>
        <button className="btn small primary end" type="submit" disabled={!text.trim()}>
          Send
        </button>
      </div>
    </form>
  );
}
