/** The addresses of Burn: /welcome?next=…, /, /threads/ID and /join/ID. */
import { useSyncExternalStore } from "react";

const watching = new Set<() => void>();

function changed(): void {
  for (const each of watching) each();
}

addEventListener("popstate", changed);

export function usePath(): string {
  return useSyncExternalStore(
    (then) => {
      watching.add(then);
      return () => watching.delete(then);
    },
    () => location.pathname + location.search,
  );
}

export function go(path: string, replace = false): void {
  if (replace) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  changed();
}

/** Let a link change the page without loading it again. */
export function follow(event: React.MouseEvent<HTMLAnchorElement>): void {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go(event.currentTarget.getAttribute("href") ?? "/");
}

/** Where to go after signing in: a path of this page, and no other address. */
export function nextPath(): string {
  const next = new URLSearchParams(location.search).get("next") ?? "/";
  return /^\/(threads|join)\/[0-9a-f-]{36}$/.test(next) ? next : "/";
}

export const inviteLink = (thread: string) => `${location.origin}/join/${thread}`;
