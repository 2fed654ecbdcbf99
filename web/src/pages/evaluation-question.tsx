/** One case of questions, opened: the saved statement beside those of the answer. */
import { Link } from "@tanstack/react-router";

import { duration, money, number } from "../data/format";
import type { CaseDetail } from "../data/evaluations";
import { visible } from "../data/visible";
import { Sql } from "../parts/sql";
import { State } from "../parts/state";

export function QuestionCase({ of, row }: { of: number; row: CaseDetail }) {
  const { candidate, expected } = row;
  const statements = candidate.sql ?? [];
  return (
    <div className="gbody" aria-label={`Case ${of}`} role="group">
      <p className="wrapped">
        <bdi className="strong">{visible(candidate.question ?? "")}</bdi>
      </p>
      <div className="grid-eq">
        <section className="stack tight" aria-label="Saved">
          <h3>Saved statement</h3>
          {expected?.sql && <Statement text={expected.sql} />}
        </section>
        <section className="stack tight" aria-label="Candidate">
          <div className="row wrap">
            <h3>Candidate</h3>
            {row.is_right !== null && (
              <State state={row.is_right ? "done" : "failed"} word={row.is_right ? "right" : "wrong"} bare />
            )}
            {candidate.run != null && (
              <Link to="/runs/$run" params={{ run: String(candidate.run) }} activeProps={{}}>
                run {candidate.run}
              </Link>
            )}
          </div>
          {statements.map((text, i) => (
            <Statement key={i} text={text} />
          ))}
          {statements.length === 0 && <p className="muted">It executed no statement.</p>}
          {candidate.error && (
            <p className="wrong wrapped">
              <bdi>{visible(candidate.error)}</bdi>
            </p>
          )}
          <p className="muted">
            {number(candidate.tokens)} tokens, {candidate.cost == null ? "no price" : money(Number(candidate.cost))}
            {candidate.run != null && `, ${duration(candidate.seconds * 1_000)}`}
          </p>
        </section>
      </div>
    </div>
  );
}

function Statement({ text }: { text: string }) {
  return (
    <pre tabIndex={0} className="code wrap">
      <Sql text={text} />
    </pre>
  );
}
