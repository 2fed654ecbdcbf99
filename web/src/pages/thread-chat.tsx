/** The chat of a thread: events in the order of the database, calls that wait, what agents do now. */
import { Link, useSearch } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { mutate } from "../data/mutate";
import { readQuery } from "../data/queries";
import { Refused } from "../data/request";
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
import { Composer, type Sending } from "../parts/chat";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Skeleton } from "../parts/panel";
import { State } from "../parts/state";
import { toast, toastProblem } from "../parts/toast";
import { EditThread } from "./thread-edit";
import { Messages } from "./thread-messages";

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
