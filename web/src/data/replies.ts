/** Replies while they are written: text that no row has yet. */
import { useEffect, useState } from "react";

import { at } from "./base";

const EVERY = 50;

/** The text that the model of a run has written so far; null while there is none. */
export function useReply(run: string | null): string | null {
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    setText(null);
    if (!run) return;
    const source = new EventSource(at(`v1/replies?run=${encodeURIComponent(run)}`), { withCredentials: true });
    let all = "";
    let timer: ReturnType<typeof setTimeout> | undefined;
    source.onmessage = (event) => {
      const given = JSON.parse(event.data) as { text?: string; delta?: string; done?: boolean };
      all = given.text ?? all + (given.delta ?? "");
      timer ??= setTimeout(() => {
        timer = undefined;
        setText(all);
      }, EVERY);
    };
    source.onerror = () => source.readyState === EventSource.CLOSED && source.close();
    return () => {
      source.close();
      clearTimeout(timer);
    };
  }, [run]);
  return text;
}
