/** What a chat consists of: a log that follows its end, messages that are on their way, a composer. */
import { type KeyboardEvent, type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";

import { useTyped } from "../data/draft";
import { isNarrow } from "../data/local";
import { Prose } from "./prose";

const NEAR = 64; // pixels from the end within which the log follows

/** A message that is on its way, or was not accepted. */
export interface Sending {
  id: string;
  text: string;
  problem: string | null;
}

interface LogProps {
  /** It changes when a message is added. */
  count: number;
  /** How many of the reader are on their way: a message of one's own is always shown. */
  sending: number;
  children: ReactNode;
}

/** Messages in order. */
export function Log({ count, sending, children }: LogProps) {
  const log = useRef<HTMLDivElement>(null);
  const [isBehind, setBehind] = useState(false);
  const follows = useRef(true);
  const size = useRef("");
  const toEnd = () => log.current?.scrollTo({ top: log.current.scrollHeight });
  const sent = useRef(sending);
  useLayoutEffect(() => {
    if (sending > sent.current) {
      follows.current = true;
      setBehind(false);
    }
    sent.current = sending;
    if (follows.current) toEnd();
    else setBehind(true);
  }, [count, sending]);
  useEffect(() => {
    const at = log.current;
    const grown = new ResizeObserver(() => follows.current && toEnd());
    const watch = () => {
      grown.disconnect();
      if (at) for (const each of [at, ...at.children]) grown.observe(each);
    };
    const added = new MutationObserver(watch);
    watch();
    if (at) added.observe(at, { childList: true });
    return () => {
      grown.disconnect();
      added.disconnect();
    };
  }, []);
  const scrolled = () => {
    const at = log.current;
    if (!at) return;
    // Another width or height scrolls, too: that is not the reader who leaves the end.
    const now = `${at.scrollHeight} ${at.clientWidth} ${at.clientHeight}`;
    const isResized = now !== size.current;
    size.current = now;
    if (isResized && follows.current) return toEnd();
    follows.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR;
    if (follows.current) setBehind(false);
  };
  return (
    <>
      <div className="log" role="log" aria-label="Messages" tabIndex={0} ref={log} onScroll={scrolled}>
        {children}
      </div>
      {isBehind && (
        <button type="button" className="btn small later" onClick={toEnd}>
          New messages
        </button>
      )}
    </>
  );
}

export function Unsent({
  avatar,
  name,
  message,
  onAgain,
}: {
  avatar: ReactNode;
  name: string;
  message: Sending;
  onAgain: () => void;
}) {
  return (
    <article className="msg mine">
      {avatar}
      <div className="by">
        <b>{name}</b>
        <span className="muted">{message.problem ? `not sent: ${message.problem}` : "sending"}</span>
        {message.problem && (
          <button type="button" className="btn small" onClick={onAgain}>
            Send again
          </button>
        )}
      </div>
      <div className="bubble" dir="auto">
        <Prose text={message.text} />
      </div>
    </article>
  );
}

interface ComposerProps {
  /** What a text is kept under until it is sent. */
  name: string;
  onSend: (text: string) => void;
  /** While somebody answers: send the text so that they stop, and take it up. */
  onInterrupt?: ((text: string) => void) | undefined;
  most?: number;
  /** More buttons, before the one that sends. */
  children?: ReactNode;
}

export function Composer({ name, onSend, onInterrupt, most = 4_000, children }: ComposerProps) {
  const [text, setText] = useTyped(name);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (!isNarrow()) area.current?.focus({ preventScroll: true }); // it would open a phone's keyboard
  }, []);
  useLayoutEffect(() => {
    const at = area.current;
    if (!at) return;
    at.style.height = "auto";
    at.style.height = `${Math.min(at.scrollHeight + 2, innerHeight / 5)}px`;
  }, [text]);
  const send = (to = onSend) => {
    if (!text.trim()) return;
    to(text.trim());
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
      <textarea
        id="message"
        dir="auto"
        ref={area}
        rows={2}
        maxLength={most}
        placeholder="Write to the thread"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={pressed}
      />
      <div className="row">
        <span className="muted">
          <kbd>↵</kbd> send
          <span className="hide-s">
            , <kbd>⇧↵</kbd> new line
          </span>
        </span>
        <span className="end row">
          {children}
          {onInterrupt && (
            <button
              className="btn small"
              type="button"
              disabled={!text.trim()}
              title="Send, and cut off what is being written"
              onClick={() => send(onInterrupt)}
            >
              Interrupt
            </button>
          )}
          <button className="btn small primary" type="submit" disabled={!text.trim()}>
            Send
          </button>
        </span>
      </div>
    </form>
  );
}
