/** The chat: events in the order of the database, and what agents do at the moment. */
import { useState } from "react";

import { Refused } from "../src/data/request";
import { Composer, Log, type Sending, Unsent } from "../src/parts/chat";
import { State } from "../src/parts/state";
import { Time } from "../src/parts/time";
import { toastProblem } from "../src/parts/toast";
import { Avatar } from "./avatar";
import { ingest, type Member, type Thread, type ThreadEvent, type User, useRows } from "./data";
import { did, happened, isHidden, nameOf } from "./words";

type Users = ReadonlyMap<string, User>;

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
      <Messages
        key={thread.id}
        user={user}
        thread={thread.id}
        members={members}
        users={users}
        events={events}
        sending={waiting}
        onAgain={(each) => void send({ ...each, problem: null })}
      />
      <Composer
        name={`burn.${location.pathname}`}
        onSend={(text) => void send({ id: crypto.randomUUID(), text, problem: null }).catch(toastProblem)}
      />
    </>
  );
}

interface MessagesProps {
  user: User;
  thread: string;
  members: readonly Member[];
  users: Users;
  events: readonly ThreadEvent[];
  sending: readonly Sending[];
  onAgain: (message: Sending) => void;
}

function Messages({ user, thread, members, users, events, sending, onAgain }: MessagesProps) {
  const { rows: processes } = useRows("processes");
  const busy = processes.filter((each) => each.thread_id === thread && each.state === "running");
  const shown = events.filter((each) => !isHidden(each));
  const roles = new Map(members.map((each) => [each.user.id, each.membership.role]));
  return (
    <Log sending={sending.length} count={shown.length + sending.length + busy.length}>
      {shown.map((each) =>
        each.type === "system" ? (
          <p className="sys" key={each.id}>
            {happened(each, users, user)} · <Time at={each.inserted_at} />
          </p>
        ) : (
          <Message
            key={each.id}
            event={each}
            users={users}
            role={roles.get(each.user_id)}
            isMine={each.user_id === user.id}
            earlier={events.slice(0, each.number - 1)}
          />
        ),
      )}
      {sending.map((each) => (
        <Unsent
          key={each.id}
          avatar={<Avatar user={user} />}
          name={user.name}
          message={each}
          onAgain={() => onAgain(each)}
        />
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
    </Log>
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
        <span className={`chip ${author?.type === "agent" ? "agent" : "person"}`}>
          {isMine ? "you" : (role ?? "left")}
        </span>
        <span className="muted">
          <Time at={event.inserted_at} />
        </span>
      </div>
      <div className="bubble" dir="auto">
        {event.type === "text" ? String(event.data.text) : did(event, users, earlier)}
      </div>
    </article>
  );
}
