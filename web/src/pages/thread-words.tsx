/** What an event says, for people. */
import { textOf } from "../data/exact";
import type { ThreadEvent, ThreadRow } from "../data/threads";

const ACTIONS: Record<string, string> = {
  created: "created the thread",
  joined: "joined",
  left: "left",
  paused: "paused the thread",
  resumed: "resumed the thread",
  closed: "completed the thread",
  archived: "archived the thread",
  overridden: "corrected an answer",
  discussion_opened: "opened the discussion",
  proposed: "made a proposal",
  voted: "voted",
  decided: "closed a vote",
  withdrawn: "withdrew a proposal",
  assigned: "assigned a task",
  saved: "saved an artifact",
  role_given: "gave a role",
};
const INJECTED: Record<string, string> = {
  system: "gave the agents an instruction",
  context: "gave the agents data",
  override: "replaced the instructions of the agents",
};

/** What happened to a thread: you created the thread. */
export function happened(event: ThreadEvent, me: string | undefined): string {
  const { action = "", by, title, text, kind } = event.data as Record<string, string | undefined>;
  const name = (who: string) => (who === me ? "you" : who);
  const who = name(event.author);
  if (by && action === "left") return `${name(by)} removed ${who}`;
  if (by && action === "joined") return `${name(by)} added ${who}`;
  if (action === "renamed") return `${who} renamed the thread to “${title ?? ""}”`;
  if (action === "injected") return `${who} ${INJECTED[kind ?? ""] ?? "gave the agents a text"}: “${text ?? ""}”`;
  return `${who} ${ACTIONS[action] ?? action.replaceAll("_", " ")}`;
}

/** The latest event of a thread in one line. */
export function brief({ type, author, text }: Pick<ThreadRow, "type" | "author" | "text">): string {
  if (!type) return "no events";
  if (type === "system") return `${author} ${ACTIONS[text ?? ""] ?? (text ?? "").replaceAll("_", " ")}`;
  if (type === "tool_use") return `${author} called ${text}`;
  return type === "tool_result" ? `${author} got an answer of ${text}` : `${author}: ${text}`;
}

export const callId = (event: ThreadEvent): string =>
  textOf((event.type === "tool_use" ? event.data.id : event.data.tool_use_id) ?? event.id);
