/** Times: relative up to seven days, absolute on hover and focus. */
import { useEffect, useState } from "react";

import { absolute, relative } from "../data/format";
import { useZone } from "../data/zone";

let turn = 0;
const watching = new Set<(turn: number) => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Render again each second while the page is visible: one timer for all times. */
export function useTick(): number {
  const [at, set] = useState(turn);
  useEffect(() => {
    watching.add(set);
    timer ??= setInterval(() => {
      if (document.visibilityState !== "visible") return;
      turn += 1;
      for (const each of watching) each(turn);
    }, 1_000);
    return () => {
      watching.delete(set);
      if (watching.size === 0) {
        clearInterval(timer);
        timer = undefined;
      }
    };
  }, []);
  return at;
}

export function Time({ at, short = false, text }: { at: string | null | undefined; short?: boolean; text?: string }) {
  useTick();
  const zone = useZone();
  if (!at) return null;
  return (
    <time dateTime={at} title={absolute(at, zone)}>
      {text ?? relative(at, zone, short)}
    </time>
  );
}
