/** What a person must act on, the most urgent first, and what can wait. */
import { type LinkProps, Link, linkOptions } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { ProblemRow } from "../data/home";
import { visible } from "../data/visible";
import { Copy } from "./copy";
import { Notice } from "./notice";
import { Panel } from "./panel";
import { Time } from "./time";

const SOON = 4;

/** Where each kind is looked at. */
const PAGES: Record<ProblemRow["kind"], LinkProps> = {
  reader: linkOptions({ to: "/wal" }),
  slot: linkOptions({ to: "/wal" }),
  attachment: linkOptions({ to: "/agents" }),
  review: linkOptions({ to: "/runs", search: { state: "needs_review" } }),
  worker: linkOptions({ to: "/wal", hash: "workers" }),
  gap: linkOptions({ to: "/wal" }),
  budget: linkOptions({ to: "/cost" }),
  foreign: linkOptions({ to: "/wal", hash: "readers" }),
  approval: linkOptions({ to: "/approvals" }),
  regression: linkOptions({ to: "/failed" }),
  unread: linkOptions({ to: "/wal" }),
};

export const isUrgent = (problem: ProblemRow) => problem.urgency < SOON;

export function Problems({ rows }: { rows: readonly ProblemRow[] }): ReactNode {
  const urgent = rows.filter(isUrgent);
  const soon = rows.filter((row) => !isUrgent(row));
  return (
    <>
      {urgent.map((row) => (
        <Notice key={row.kind + row.text} tone="person" icon="s-paused">
          <One row={row} />
        </Notice>
      ))}
      {soon.length > 0 && (
        <Panel title="Soon" aside={<span className="muted">{soon.length}, nothing stands still for these</span>}>
          {soon.map((row) => (
            <One key={row.kind + row.text} row={row} />
          ))}
        </Panel>
      )}
    </>
  );
}

function One({ row }: { row: ProblemRow }) {
  return (
    <div className="problem" dir="auto">
      <p className="strong">
        <Link {...PAGES[row.kind]} className="plain">
          {visible(row.text)}
        </Link>
        {row.since && (
          <span className="muted">
            {" "}
            since <Time at={row.since} />
          </span>
        )}
      </p>
      {row.detail && <p>{visible(row.detail)}</p>}
      {row.fix && (
        <div className="row">
          <code>{row.fix}</code> <Copy text={row.fix} />
        </div>
      )}
    </div>
  );
}
