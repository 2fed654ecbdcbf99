/** The symbols of index.html. */
export type IconName =
  | "agent"
  | "approve"
  | "ask"
  | "book"
  | "bulb"
  | "change"
  | "chat"
  | "clock"
  | "copy"
  | "cost"
  | "dl"
  | "doc"
  | "down"
  | "edit"
  | "fail"
  | "home"
  | "left"
  | "link"
  | "live"
  | "lock"
  | "logo"
  | "more"
  | "pause"
  | "people"
  | "play"
  | "plug"
  | "plus"
  | "retry"
  | "right"
  | "runs"
  | "s-approval"
  | "s-cancelled"
  | "s-dead"
  | "s-failed"
  | "s-ok"
  | "s-paused"
  | "s-pending"
  | "s-retry"
  | "s-review"
  | "s-running"
  | "s-skipped"
  | "scale"
  | "search"
  | "star"
  | "step"
  | "table"
  | "theme"
  | "tool"
  | "up"
  | "user"
  | "wal"
  | "x";

/** An icon; decoration, so the word stands beside it or in the label of its control. */
export function Icon({ name, small = false, className = "" }: { name: IconName; small?: boolean; className?: string }) {
  return (
    <svg className={`i${small ? " s" : ""}${className ? ` ${className}` : ""}`} aria-hidden="true">
      <use href={`#i-${name}`} />
    </svg>
  );
}
