/** What an event says, for people. */
import type { ReactNode } from "react";

import type { ThreadEvent, User } from "./data";

type Users = ReadonlyMap<string, User>;
interface Fact {
  subject?: string;
}

const input = (event: ThreadEvent) => (event.data.input ?? {}) as Record<string, unknown>;

export const call = (event: ThreadEvent): string => (event.type === "tool_use" ? String(event.data.name) : "");

export const isHidden = (event: ThreadEvent): boolean =>
  call(event) === "do_nothing" || (event.type === "tool_result" && !event.data.is_error);

export function nameOf(users: Users, id: unknown): string {
  return users.get(String(id))?.name ?? "somebody";
}

function At({ users, id }: { users: Users; id: unknown }) {
  return <b className="strong">@{nameOf(users, id)}</b>;
}

/** What happened to a thread: you created the thread. */
export function happened(event: ThreadEvent, users: Users, me: User): string {
  const { action, by, title } = event.data as { action?: string; by?: string; title?: string };
  const name = nameOf(users, event.user_id);
  const who = event.user_id === me.id ? "you" : name;
  if (by && action === "left") return `${by === me.name ? "you" : by} removed ${who}`;
  if (by && action === "joined") return `${by === me.name ? "you" : by} added ${who}`;
  if (action === "renamed") return `${who} renamed the thread to ${title}`;
  return `${who} ${action ?? "changed"} the thread`;
}

/** What an agent did; an agent greets a user once. */
export function did(event: ThreadEvent, users: Users, earlier: readonly ThreadEvent[]): ReactNode {
  const { subject, question, roast, facts } = input(event);
  const at = <At users={users} id={subject} />;
  switch (call(event)) {
    case "ask_user_about_themselves": {
      const greeted = earlier.some(
        (each) => call(each) === call(event) && each.user_id === event.user_id && input(each).subject === subject,
      );
      return greeted ? (
        <>
          {at} {String(question)}
        </>
      ) : (
        <>
          Hi {at}, {String(question)}
        </>
      );
    }
    case "roast_user":
      return (
        <>
          {at} {String(roast)}
        </>
      );
    case "extract_facts":
      return <Extracted facts={(facts ?? []) as Fact[]} users={users} />;
    default:
      return event.type === "tool_result" ? `a call failed: ${String(event.data.content)}` : `called ${call(event)}`;
  }
}

/** "extracted 2 facts about @a and a fact about @b" */
function Extracted({ facts, users }: { facts: readonly Fact[]; users: Users }) {
  const counts = new Map<string, number>();
  for (const { subject } of facts) counts.set(String(subject), (counts.get(String(subject)) ?? 0) + 1);
  return (
    <>
      extracted{" "}
      {[...counts].map(([subject, count], at) => (
        <span key={subject}>
          {at > 0 && (at === counts.size - 1 ? " and " : ", ")}
          {count === 1 ? "a fact" : `${count} facts`} about <At users={users} id={subject} />
        </span>
      ))}
    </>
  );
}
