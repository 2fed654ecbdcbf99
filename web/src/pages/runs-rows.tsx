/** The rows of the list of runs. */
import { Link } from "@tanstack/react-router";
import { memo, type MouseEvent } from "react";

import { duration, money } from "../data/format";
import { badge, type RunRow } from "../data/runs";
import { Of } from "../parts/of";
import { State } from "../parts/state";
import { Time } from "../parts/time";

/** Of the rows that are not drawn.  One cell: more than are shown would make columns of their own. */
export function Spacer({ height }: { height: number }) {
  return height > 0 ? (
    <tr aria-hidden="true" className="spacer">
      <td style={{ height }} />
    </tr>
  ) : null;
}

interface RowProps {
  row: RunRow;
  index: number;
  measure: (node: Element | null) => void;
  isGone: boolean;
  isCursor: boolean;
  isFirst: boolean;
  isSelected: boolean;
  /** Whether a panel is beside the list. */
  isBeside: boolean;
  onToggle: (id: string, isRange: boolean) => void;
  onOpen: (id: string) => void;
}

export const Row = memo(function Row({
  row,
  index,
  measure,
  isGone,
  isCursor,
  isFirst,
  isSelected,
  isBeside,
  onToggle,
  onOpen,
}: RowProps) {
  const click = (event: MouseEvent) => {
    if ((event.target as HTMLElement).closest("a,input,button") || getSelection()?.toString()) return;
    onOpen(row.id);
  };
  return (
    <tr
      ref={measure}
      data-index={index}
      data-run={row.id}
      aria-rowindex={index + 1}
      tabIndex={isCursor || isFirst ? 0 : -1}
      className={`${isCursor ? "cursor" : ""}${isGone ? " gone" : ""}`}
      aria-selected={isSelected}
      title={isGone ? "It no longer matches the filter." : undefined}
      onClick={click}
    >
      <td className="hide-s">
        <input
          type="checkbox"
          aria-label={`Select run ${row.id}`}
          checked={isSelected}
          readOnly
          onClick={(event) => onToggle(row.id, event.shiftKey)}
          tabIndex={-1}
        />
      </td>
      <td className="inline nowrap">
        <State state={badge(row.state)} />
      </td>
      <td className="num inline">
        <Link to="/runs/$run" params={{ run: row.id }} tabIndex={-1}>
          {row.id}
        </Link>
      </td>
      <td className="clip">
        <Of run={row} strong />
      </td>
      {!isBeside && (
        <td className="clip hide-s" title={row.agent ?? undefined}>
          {row.agent}
        </td>
      )}
      <td className={`clip hide-s soft${isBeside ? " hide-m" : ""}`}>
        <What row={row} />
      </td>
      {!isBeside && <td className="num hide-s hide-m nowrap">{duration(row.duration_ms)}</td>}
      <td className="num hide-s">{row.cost !== null ? money(row.cost) : ""}</td>
      <td className="num nowrap inline">
        <Time at={row.committed_at ?? row.created_at} short />
      </td>
    </tr>
  );
});

function What({ row }: { row: RunRow }) {
  if (row.state === "pending" && row.blocked_by) return <>blocked by run {row.blocked_by}</>;
  if (row.state === "waiting_retry" && row.next_attempt_at)
    return (
      <>
        {row.what}, next attempt <Time at={row.next_attempt_at} />
      </>
    );
  return <span title={row.what ?? undefined}>{row.what}</span>;
}
