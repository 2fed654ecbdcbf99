/** A thread: list, chat, computer. */
import { useState } from "react";

import { Copy } from "../src/parts/copy";
import { Icon } from "../src/parts/icon";
import { Avatar } from "./avatar";
import { Chat } from "./chat";
import { Computer } from "./computer";
import { type Member, type Thread, type User, useRows } from "./data";
import { Edit } from "./edit";
import { inviteLink } from "./route";
import { Sidebar } from "./sidebar";

interface ThreadPageProps {
  user: User;
  threads: readonly Thread[];
  isLoading: boolean;
  thread: Thread | undefined;
}

export function ThreadPage({ user, threads, isLoading, thread }: ThreadPageProps) {
  const [open, setOpen] = useState<"left" | "right" | null>(null);
  const { rows: users } = useRows("users");
  const members = useMembers(thread?.id, users);
  const close = () => setOpen(null);
  const byId = new Map(users.map((each) => [each.id, each]));
  return (
    <div className="burn">
      <a className="skip" href="#main">
        Skip to messages
      </a>
      <Sidebar user={user} threads={threads} current={thread?.id} isOpen={open === "left"} onClose={close} />
      <main id="main" className="chat" tabIndex={-1}>
        {thread && <Head key={thread.id} user={user} thread={thread} members={members} onOpen={setOpen} />}
        {thread && <Chat key={`chat ${thread.id}`} user={user} thread={thread} members={members} users={byId} />}
        {!thread && <p className="none">{isLoading ? "Reading your threads" : "No thread. Start one."}</p>}
      </main>
      <Computer thread={thread?.id} users={byId} isOpen={open === "right"} onClose={close} />
      <button
        type="button"
        className={`scrim${open ? " shown" : ""}`}
        aria-label="Close"
        tabIndex={-1}
        onClick={close}
      />
    </div>
  );
}

function useMembers(thread: string | undefined, users: readonly User[]): readonly Member[] {
  const { rows } = useRows("memberships");
  const order = ["producer", "comedian", "owner", "member"];
  return rows
    .filter((each) => each.thread_id === thread)
    .flatMap((membership) =>
      users.filter((each) => each.id === membership.user_id).map((user) => ({ user, membership })),
    )
    .toSorted(
      (a, b) =>
        order.indexOf(a.membership.role) - order.indexOf(b.membership.role) || a.user.name.localeCompare(b.user.name),
    );
}

interface HeadProps {
  user: User;
  thread: Thread;
  members: readonly Member[];
  onOpen: (side: "left" | "right") => void;
}

function Head({ user, thread, members, onOpen }: HeadProps) {
  const [isEditing, setEditing] = useState(false);
  const faces = (type: User["type"]) =>
    members
      .filter((each) => each.user.type === type)
      .map((each) => (
        <Avatar key={each.membership.id} user={each.user} small title={`${each.user.name}, ${each.membership.role}`} />
      ));
  const named = (type: User["type"]) => members.filter((each) => each.user.type === type).map((each) => each.user.name);
  return (
    <header>
      <button
        type="button"
        className="btn quiet small icon toggle-left"
        aria-label="Threads"
        onClick={() => onOpen("left")}
      >
        <Icon name="left" small />
      </button>
      <h1>{thread.name}</h1>
      <span className="people agents" role="img" aria-label={`Agents: ${named("agent").join(", ")}`}>
        {faces("agent")}
      </span>
      <span className="people" role="img" aria-label={`Users: ${named("human").join(", ")}`}>
        {faces("human")}
      </span>
      <span className="end row">
        <span className="invite">
          <Copy text={inviteLink(thread.id)} label="Invite" className="btn small" icon="link" />
        </span>
        <button
          type="button"
          className="btn quiet small icon"
          aria-label="Edit thread"
          onClick={() => setEditing(true)}
        >
          <Icon name="edit" small />
        </button>
        <button type="button" className="btn quiet small toggle-right" onClick={() => onOpen("right")}>
          Computer
        </button>
      </span>
      {isEditing && <Edit user={user} thread={thread} members={members} onClose={() => setEditing(false)} />}
    </header>
  );
}
