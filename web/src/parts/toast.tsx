/** Toasts: what an action did, with undo where there is one; ten seconds. */
import { type ReactNode, useSyncExternalStore } from "react";

import { Refused } from "../data/request";
import { State } from "./state";

interface Toast {
  id: number;
  state: string;
  text: ReactNode;
  action?: { label: string; run: () => void; key?: string };
}

const LASTS = 10_000;
let toasts: readonly Toast[] = [];
let last = 0;
const watching = new Set<() => void>();

function set(next: readonly Toast[]): void {
  toasts = next;
  for (const each of watching) each();
}

/** Show a toast; return what removes it. */
export function toast(
  text: ReactNode,
  options: { state?: string; action?: Toast["action"]; stays?: boolean } = {},
): () => void {
  const id = ++last;
  const remove = () => set(toasts.filter((each) => each.id !== id));
  const made: Toast = { id, state: options.state ?? "done", text };
  if (options.action) made.action = options.action;
  set([...toasts.slice(-2), made]);
  if (!options.stays) setTimeout(remove, LASTS);
  return remove;
}

/** Show why an action was refused. */
export function toastProblem(error: unknown): void {
  const text = error instanceof Refused ? [error.message, error.hint].filter(Boolean).join(" ") : String(error);
  toast(text, { state: "failed" });
}

/** Undo what the newest toast offers to undo. */
export function undoLast(): void {
  const found = toasts.findLast((each) => each.action?.key === "u");
  if (!found) return;
  set(toasts.filter((each) => each.id !== found.id));
  found.action?.run();
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (changed) => {
      watching.add(changed);
      return () => watching.delete(changed);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((each) => (
        <div className="toast" key={each.id}>
          <State state={each.state} word="" bare />
          <span>{each.text}</span>
          {each.action && (
            <button
              type="button"
              className="btn small"
              onClick={() => {
                set(toasts.filter((other) => other.id !== each.id));
                each.action?.run();
              }}
            >
              {each.action.label} {each.action.key && <kbd>{each.action.key}</kbd>}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
