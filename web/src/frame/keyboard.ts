/** Keys that act anywhere, and the one place where pages register theirs. */
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useLayoutEffect, useRef, useSyncExternalStore } from "react";

import { recall, remember } from "../data/local";
import { copy } from "../parts/copy";
import { toast, undoLast } from "../parts/toast";
import { PLACES } from "./nav";

/** What a key does; `false`: nothing, and the browser goes on. */
export type Keys = Readonly<Record<string, (event: KeyboardEvent) => unknown>>;

function store<T>(value: T) {
  const watching = new Set<() => void>();
  const set = (next: T) => {
    value = next;
    for (const each of watching) each();
  };
  const use = () =>
    useSyncExternalStore(
      (changed) => {
        watching.add(changed);
        return () => watching.delete(changed);
      },
      () => value,
    );
  return [() => value, set, use] as const;
}

export const [isFinding, find, useFinding] = store(false);
export const [isHelping, keysHelp, useKeysHelp] = store(false);
export const [hasLetters, setLetters, useLetters] = store(recall("letters") !== "off");

/** Switch keys of single letters off or on (WCAG 2.1.4). */
export function switchLetters(on: boolean): void {
  remember("letters", on ? null : "off");
  setLetters(on);
}

const pages: { current: Keys }[] = [];

/** Register the keys of a page or a part; the one that is mounted last is asked first. */
export function useKeys(keys: Keys): void {
  const held = useRef(keys);
  useLayoutEffect(() => {
    held.current = keys;
  });
  useEffect(() => {
    pages.push(held);
    return () => void pages.splice(pages.indexOf(held), 1);
  }, []);
}

/** The name of a key: `j`, `Shift+x`, `Mod+a`, `Enter`. */
function nameOf(event: KeyboardEvent): string {
  const mod = event.metaKey || event.ctrlKey ? "Mod+" : "";
  const isLetter = event.key.length === 1 && /[a-z]/i.test(event.key);
  const shift = event.shiftKey && (isLetter || event.key.length > 1) ? "Shift+" : "";
  return `${mod}${shift}${isLetter ? event.key.toLowerCase() : event.key}`;
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
    (target as HTMLInputElement).type !== "checkbox"
  );
}

const GO = 1_200; // milliseconds between `g` and the letter of a page

/** Handle keys of the whole page. */
export function useKeyboard(): void {
  const navigate = useNavigate();
  const going = useRef(0);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing || event.altKey) return;
      const name = nameOf(event);
      if (name === "Mod+k") {
        event.preventDefault();
        find(!isFinding());
        return;
      }
      if (document.querySelector("dialog[open]") || isTyping(event.target)) return;
      const isSingle = event.key.length === 1 && !name.startsWith("Mod+");
      if (isSingle && !hasLetters()) return;
      if (isSingle && Date.now() - going.current < GO) {
        going.current = 0;
        const place = PLACES.find((each) => each.key === name);
        if (place) {
          event.preventDefault();
          void navigate({ to: place.to });
          return;
        }
      }
      for (const keys of [...pages].reverse()) {
        const act = keys.current[name];
        if (act && act(event) !== false) {
          event.preventDefault();
          return;
        }
      }
      const act = anywhere[name];
      if (act) {
        event.preventDefault();
        act();
      }
    };
    const anywhere: Record<string, () => void> = {
      g: () => (going.current = Date.now()),
      "?": () => keysHelp(true),
      u: undoLast,
      y: () =>
        void copy(location.href).then((done) => toast(done ? "Link copied" : "The browser did not allow copying")),
      "/": () => document.querySelector<HTMLElement>("main [data-filter]")?.focus(),
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [navigate]);
}
