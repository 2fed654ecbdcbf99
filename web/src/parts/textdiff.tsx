/** Two texts: with + and −, and the words that changed. */
import { useMemo } from "react";

import { type DiffLine, diff } from "../data/diff";

export function useDiff(before: string, after: string): { lines: readonly DiffLine[]; added: number; removed: number } {
  return useMemo(() => {
    const lines = diff(before, after);
    const of = (kind: string) => lines.filter((line) => line.kind === kind).length;
    return { lines, added: of("add"), removed: of("del") };
  }, [before, after]);
}

const SIGNS = { same: "", del: "−", add: "+" };

export function TextDiff({ lines, label }: { lines: readonly DiffLine[]; label: string }) {
  return (
    <div className="diff" role="group" aria-label={label} tabIndex={0}>
      {lines.map((line, i) => (
        <div key={i} className={line.kind === "same" ? undefined : line.kind}>
          <span>{line.number}</span>
          <span>{SIGNS[line.kind]}</span>
          <span>{line.parts.map((part, n) => (part.isMarked ? <mark key={n}>{part.text}</mark> : part.text))}</span>
        </div>
      ))}
    </div>
  );
}
