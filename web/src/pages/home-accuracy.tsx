/** Agents of which more was wrong lately than before; nothing without one. */
import { Link } from "@tanstack/react-router";

import { accuracyOf, type Fell } from "../data/agents";
import { number } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { visible } from "../data/visible";
import { Name } from "../parts/name";
import { Notice } from "../parts/notice";

const EVERY = 300_000; // ms: it is counted by days

export function FellAccuracy() {
  const { rows } = useQueryOnce<Fell>("accuracy_fell", {}, { every: EVERY });
  if (!rows?.length) return null;
  return (
    <Notice tone="info" icon="change">
      {rows.map((row) => (
        <p key={row.agent}>
          <Link to="/agents/$agent" params={{ agent: row.agent }}>
            <Name text={visible(row.agent)} />
          </Link>
          : of {number(row.written)} values that it wrote in 7 days, {accuracyOf(row)} were not wrong; in the 28 days
          before, {accuracyOf({ written: row.written_before, wrong: row.wrong_before })} of {number(row.written_before)}
          .{" "}
          <Link to="/changes" search={{ tab: "corrections", agent: row.agent, since: "7d" }}>
            What was corrected
          </Link>
        </p>
      ))}
    </Notice>
  );
}
