/** A run that a person should score: what it did to which row, and why it is listed. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { type Answer, answerOf, reasonOf, type Unscored, VALUES } from "../data/scores";
import { visible } from "../data/visible";
import { OfRun, RowLink } from "../parts/changed";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { useMayOperate } from "./failed-group";
import { ScoreButtons } from "./run-score";

export function UnscoredRun({ row }: { row: Unscored }) {
  const mayOperate = useMayOperate();
  // It stays until the list is read again: a row that jumps away takes the next one under the hand.
  const [said, setSaid] = useState<Answer | null>(null);
  return (
    <article className="chg" aria-label={`Run ${row.run_id}`}>
      <p className="row wrap">
        <span className="muted nowrap when">
          <Time at={row.finished_at} />
        </span>
        <OfRun row={row} />
        {row.relation && <RowLink row={{ relation: row.relation, key: row.key }} />}
        {row.title && (
          <span className="clip" title={visible(row.title)}>
            <bdi>{visible(row.title)}</bdi>
          </span>
        )}
      </p>
      <p>
        <bdi className="mono">{visible(row.what ?? "It did nothing.")}</bdi>
      </p>
      <p className="row wrap">
        {row.reasons.map((reason) =>
          reason === "corrected" ? (
            <Link
              key={reason}
              className="chip"
              to="/runs/$run"
              params={{ run: row.run_id }}
              hash="corrections"
              activeProps={{}}
            >
              {reasonOf(reason)}
            </Link>
          ) : (
            <span key={reason} className="chip">
              {reasonOf(reason)}
            </span>
          ),
        )}
        {said ? (
          <State {...answerOf(VALUES[said])} />
        ) : (
          mayOperate && <ScoreButtons run={row.run_id} onSaid={setSaid} />
        )}
      </p>
    </article>
  );
}
