/** Threads: the list at the left, the chat, the computer beside it. */
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, type SubmitEvent, useState } from "react";

import { mutate } from "../data/mutate";
import { useSession } from "../data/session";
import {
  listShape,
  titleOf,
  type ThreadRow,
  useBusy,
  useCandidates,
  useMembers,
  useThread,
  useThreads,
} from "../data/threads";
import { useKeys } from "../frame/keyboard";
import { useTitle } from "../frame/title";
import { Dialog } from "../parts/confirm";
import { Icon } from "../parts/icon";
import { More } from "../parts/more";
import { EmptyBody, Skeleton } from "../parts/panel";
import { Time } from "../parts/time";
import { toastProblem } from "../parts/toast";
import { Absent } from "./missing";
import { Chat } from "./thread-chat";
import { Computer } from "./thread-computer";
import { brief } from "./thread-words";

const WIDE = "(min-width: 1280px)"; // the list has its column

export default function Threads(): ReactNode {
  const { thread } = useParams({ strict: false });
  const search = useSearch({ strict: false });
  const isArchived = search.archived === "yes";
  const { rows, isLoading, older } = useThreads(isArchived);
  const session = useSession();
  const [isNew, setNew] = useState(false);
  const navigate = useNavigate();
  const id = thread ?? (matchMedia(WIDE).matches ? rows[0]?.id : undefined);
  const at = rows.findIndex((row) => row.id === id);
  const open = (row: ThreadRow | undefined) =>
    row && void navigate({ to: "/threads/$thread", params: { thread: row.id }, search });
  useTitle("Threads");
  useKeys({
    j: () => open(rows[at + 1]),
    k: () => open(rows[Math.max(at - 1, 0)]),
    n: () => (session?.can_post ? setNew(true) : false),
  });
  return (
    <div className={`threadcols ${thread ? (search.view === "computer" ? "at-computer" : "at-chat") : "at-list"}`}>
      <List
        rows={rows}
        older={older}
        isLoading={isLoading}
        isArchived={isArchived}
        current={id}
        onNew={() => setNew(true)}
      />
      {id ? <Shown key={id} id={id} /> : <None isLoading={isLoading} isEmpty={rows.length === 0} />}
      {isNew && <NewThread onClose={() => setNew(false)} />}
    </div>
  );
}

interface ListProps {
  rows: readonly ThreadRow[];
  older: ReturnType<typeof useThreads>["older"];
  isLoading: boolean;
  isArchived: boolean;
  current: string | undefined;
  onNew: () => void;
}

function List({ rows, older, isLoading, isArchived, current, onNew }: ListProps) {
  const search = useSearch({ strict: false });
  const busy = useBusy();
  const canPost = useSession()?.can_post;
  const Heading = current ? "h2" : "h1"; // else the thread's title is the page's
  const writing = new Map<string, string[]>();
  for (const each of busy.rows) writing.set(each.thread_id, [...(writing.get(each.thread_id) ?? []), each.agent]);
  return (
    <aside className="threads" aria-label="Threads">
      <div className="item">
        <div className="top">
          <Heading>{isArchived ? "Archived threads" : "Threads"}</Heading>
          {canPost && (
            <button
              className="btn quiet small icon"
              type="button"
              aria-label="New thread"
              title="New thread (n)"
              onClick={onNew}
            >
              <Icon name="plus" />
            </button>
          )}
        </div>
      </div>
      {isLoading ? (
        <Skeleton label="Threads are loading" />
      ) : rows.length === 0 ? (
        <EmptyBody
          title={isArchived ? "No archived thread" : "No threads yet"}
          command={isArchived ? undefined : "walagent threads talk --agent NAME"}
        >
          {isArchived ? "Threads that are archived appear here." : "A thread is a conversation of people and agents."}
        </EmptyBody>
      ) : (
        rows.map((row) => (
          <Link
            key={row.id}
            className="item"
            to="/threads/$thread"
            params={{ thread: row.id }}
            search={{ archived: search.archived, tab: search.tab }}
            activeProps={{}}
            aria-current={row.id === current || undefined}
          >
            <span className="top">
              <span className={`clip${row.is_mine ? " strong" : ""}`} title={titleOf(row)}>
                {titleOf(row)}
              </span>
              <span className="muted nowrap">
                <Time at={row.active_at} short />
              </span>
            </span>
            <span className="muted clip">{said(row, writing.get(row.id))}</span>
          </Link>
        ))
      )}
      {!isLoading && <More of={older} />}
      <Link className="item muted" to="/threads" search={{ archived: isArchived ? undefined : "yes" }} activeProps={{}}>
        {isArchived ? "Open threads" : "Archived threads"}
      </Link>
    </aside>
  );
}

function said(row: ThreadRow, writing: readonly string[] | undefined): string {
  if (writing?.length) return `${writing.join(", ")} ${writing.length === 1 ? "is" : "are"} writing`;
  if (row.state !== "active" && row.state !== "archived") return row.state;
  return brief(row);
}

function Shown({ id }: { id: string }) {
  const { rows, isLoading } = useThread(id);
  const members = useMembers(id);
  const thread = rows[0];
  useTitle(thread ? titleOf(thread) : "Threads");
  if (!thread)
    return (
      <section className="chat none" aria-busy={isLoading || undefined}>
        {isLoading ? (
          <Skeleton rows={6} label="The thread is loading" />
        ) : (
          <Absent
            text="This thread does not exist, or you are no member of it."
            detail="Ask a member for the invitation: its link lets you join."
            to="/threads"
            action="Open threads"
          />
        )}
      </section>
    );
  return (
    <>
      <Chat thread={thread} members={members.rows} />
      <Computer thread={thread} members={members.rows} />
    </>
  );
}

function None({ isLoading, isEmpty }: { isLoading: boolean; isEmpty: boolean }) {
  return (
    <section className="chat none hide-m">
      {!isLoading && isEmpty && <p className="muted">Start a thread, or follow an invitation.</p>}
    </section>
  );
}

function NewThread({ onClose }: { onClose: () => void }) {
  const { rows } = useCandidates("");
  const [title, setTitle] = useState("");
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [isSending, setSending] = useState(false);
  const navigate = useNavigate();
  const agents = (rows ?? []).filter((each) => each.kind === "agent");
  const create = async (event: SubmitEvent) => {
    event.preventDefault();
    setSending(true);
    const id = crypto.randomUUID();
    try {
      await mutate("open_thread", { title: title.trim(), members: chosen, id }, [listShape()]);
      onClose();
      await navigate({ to: "/threads/$thread", params: { thread: id } });
    } catch (error) {
      toastProblem(error);
      setSending(false);
    }
  };
  return (
    <Dialog
      title="New thread"
      className="edit"
      onClose={onClose}
      foot={
        <>
          <button type="submit" form="new-thread" className="btn primary" disabled={isSending}>
            {isSending ? "Sending" : "Start thread"}
          </button>
          <button type="button" className="btn quiet" onClick={onClose}>
            Cancel
          </button>
        </>
      }
    >
      <form id="new-thread" className="body stack" onSubmit={create}>
        <label className="field">
          Title
          <input
            type="text"
            maxLength={200}
            value={title}
            autoFocus
            onChange={(event) => setTitle(event.target.value)}
          />
        </label>
        <fieldset className="stack tight">
          <legend>Agents</legend>
          {agents.map((each) => (
            <label className="check" key={each.name}>
              <input
                type="checkbox"
                checked={chosen.includes(each.name)}
                onChange={(event) =>
                  setChosen((now) =>
                    event.target.checked ? [...now, each.name] : now.filter((name) => name !== each.name),
                  )
                }
              />
              <span>
                {each.name}{" "}
                {!each.takes_turns && <span className="muted">is not attached to threads: it takes no turns</span>}
              </span>
            </label>
          ))}
          {rows && agents.length === 0 && (
            <p className="muted">
              There is no agent. <code>select agent.attach_to_threads('NAME');</code> makes one take part in threads.
            </p>
          )}
        </fieldset>
        <p className="soft">People join by the invitation of the thread, or are added to it.</p>
      </form>
    </Dialog>
  );
}
