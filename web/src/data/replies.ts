/** Replies while models write them. */
import { useEffect, useState } from "react";

import { at } from "./base";

/** What a model has written of a reply so far. */
export interface Writing {
  reply: number;
  run: number;
  agent: string;
  text: string;
}

interface Change {
  reply: number;
  run: number;
  agent: string;
  text?: string;
  state?: "recorded" | "withdrawn" | "begun again";
}

const KEPT = 250; // milliseconds in which the rows of a recorded reply arrive

/** Follow the replies of a run, or those that will be posted in a thread; returns how to stop. */
export function followReplies(
  where: { run: string } | { thread: string },
  changed: (now: Writing[]) => void,
): () => void {
  let now = new Map<number, Writing>();
  let source: EventSource | undefined;
  const show = () => changed([...now.values()].filter((each) => each.text));
  const take = (event: MessageEvent<string>) => {
    const { reply, run, agent, text, state } = JSON.parse(event.data) as Change;
    const before = now.get(reply)?.text ?? "";
    if (text) now.set(reply, { reply, run, agent, text: before + text });
    else if (state === "begun again") now.set(reply, { reply, run, agent, text: "" });
    else if (state === "withdrawn") now.delete(reply);
    else setTimeout(() => now.delete(reply) && show(), KEPT);
    show();
  };
  const open = () => {
    if (document.hidden || source) return;
    source = new EventSource(at(`v1/replies?${new URLSearchParams(where)}`));
    source.onmessage = take;
    source.onerror = forget;
  };
  // What was not recorded counts for nothing: the server sends it again to who reads again.
  const forget = () => {
    now = new Map();
    show();
  };
  const close = () => {
    source?.close();
    source = undefined;
    forget();
  };
  // A hidden page gives back its connection: a browser has six for all pages of a server.
  const turn = () => {
    if (document.hidden) close();
    else open();
  };
  document.addEventListener("visibilitychange", turn);
  open();
  return () => {
    document.removeEventListener("visibilitychange", turn);
    close();
  };
}

/** What models write now; nothing while *where* is undefined. */
export function useReplies(where: { run: string } | { thread: string } | undefined): Writing[] {
  const [now, setNow] = useState<Writing[]>([]);
  const key = where && JSON.stringify(where);
  useEffect(() => {
    if (!key) return;
    const stop = followReplies(JSON.parse(key) as { run: string } | { thread: string }, setNow);
    return () => {
      stop();
      setNow([]);
    };
  }, [key]);
  return now;
}
