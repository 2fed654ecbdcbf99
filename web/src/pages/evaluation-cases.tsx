/** The cases of an evaluation, by number: which are shown, a line of each, and one that is opened. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { type CaseRow, type Evaluation, onlyOf, verdictOf } from "../data/evaluations";
import { number, tableName } from "../data/format";
import { usePages } from "../data/pages";
import { visible } from "../data/visible";
import { useKeys } from "../frame/keyboard";
import { Icon } from "../parts/icon";
import { More } from "../parts/more";
import { Problem } from "../parts/notice";
import { Opener } from "../parts/opener";
import { EmptyBody, Panel, Skeleton } from "../parts/panel";
import { State } from "../parts/state";
import { Case } from "./evaluation-case";

const FROM = { from: "/signed-in/evaluations/$evaluation" } as const;

export function Cases({ row }: { row: Evaluation }) {
  const { only = "" } = useSearch(FROM);
  const [turn, setTurn] = useState({ turn: 0, cases: Number(row.cases) });
  const fresh = Number(row.cases) - turn.cases;
  return (
    <Panel
      title="Cases"
      flush
      aside={<span className="muted">in the order of their numbers</span>}
      end={
        <span className="muted hide-s">
          <kbd>j</kbd> <kbd>k</kbd> next, previous
        </span>
      }
    >
      <div className="body">
        <nav className="pills" aria-label="Which cases">
          {onlyOf(row).map((each) => (
            <Link
              key={each.only}
              className="pill"
              to="/evaluations/$evaluation"
              params={{ evaluation: row.id }}
              search={{ only: each.only || undefined }}
              activeProps={{}}
              aria-current={each.only === only || undefined}
              resetScroll={false}
              replace
            >
              {each.name} <span className="n">{number(each.count(row))}</span>
            </Link>
          ))}
        </nav>
      </div>
      {fresh > 0 && (
        <button
          type="button"
          className="newrows"
          onClick={() => setTurn({ turn: turn.turn + 1, cases: Number(row.cases) })}
        >
          <Icon name="down" small />
          {number(fresh)} more {fresh === 1 ? "case was" : "cases were"} executed
        </button>
      )}
      <List key={`${only} ${turn.turn}`} row={row} only={only} />
    </Panel>
  );
}

function List({ row: { id, model }, only }: { row: Evaluation; only: string }) {
  const { open } = useSearch(FROM);
  const navigate = useNavigate();
  const pages = usePages<CaseRow>(
    "evaluation_cases",
    { evaluation: id, only },
    { limit: 50, before: (row) => String(row.number) },
  );
  // What was said of a case stays in its line, which is read once.
  const [labelled, setLabelled] = useState<ReadonlySet<number>>(new Set());
  const go = (of: number | undefined) =>
    void navigate({
      to: "/evaluations/$evaluation",
      params: { evaluation: id },
      search: { only: only || undefined, open: of === undefined ? undefined : String(of) },
      replace: true,
      resetScroll: false,
    });
  const at = pages.rows.findIndex((row) => String(row.number) === open);
  const move = (to: number) => {
    const next = pages.rows[to];
    if (!next) return pages.isEnd ? false : pages.more();
    go(next.number);
    requestAnimationFrame(() => document.getElementById(`case-${next.number}`)?.scrollIntoView({ block: "nearest" }));
  };
  useKeys({
    j: () => move(at + 1),
    k: () => (at > 0 ? move(at - 1) : false),
    Escape: () => (open ? go(undefined) : false),
  });
  const say = (of: number) => setLabelled(new Set([...labelled, of]));
  if (pages.isLoading) return <Skeleton rows={8} />;
  if (pages.error && pages.rows.length === 0) return <Problem error={pages.error} again={pages.more} />;
  const isElsewhere = open !== undefined && at < 0 && /^[1-9]\d{0,8}$/.test(open);
  return (
    <>
      {isElsewhere && (
        <section className="chg" aria-label={`Case ${open}`}>
          <p className="row wrap">
            <b className="strong">Case {open}</b>
            <span className="muted">opened by its number; the list is below</span>
            <button type="button" className="btn quiet small" onClick={() => go(undefined)}>
              Close
            </button>
          </p>
          <Case evaluation={id} model={model} of={Number(open)} onLabel={() => say(Number(open))} />
        </section>
      )}
      {pages.rows.length === 0 ? (
        <EmptyBody title={only ? "No case is of this kind" : "No case was executed yet"}>
          {only ? "All cases of the evaluation were searched." : "They appear here as they are executed."}
        </EmptyBody>
      ) : (
        <>
          <p className="evhead muted hide-s" aria-hidden="true">
            <span />
            <span>Case</span>
            <span>Row</span>
            <span>Label</span>
            <span>Recorded</span>
            <span>Candidate</span>
            <span>Verdict</span>
          </p>
          {pages.rows.map((row) => (
            <Line
              key={row.number}
              row={row}
              isOpen={String(row.number) === open}
              isLabelled={row.is_labelled_since || labelled.has(row.number)}
              toggle={() => go(String(row.number) === open ? undefined : row.number)}
            >
              <Case evaluation={id} model={model} of={row.number} onLabel={() => say(row.number)} />
            </Line>
          ))}
          <More of={pages} />
        </>
      )}
    </>
  );
}

interface LineProps {
  row: CaseRow;
  isOpen: boolean;
  isLabelled: boolean;
  toggle: () => void;
  children: React.ReactNode;
}

function Line({ row, isOpen, isLabelled, toggle, children }: LineProps) {
  return (
    <details className="grp ev" id={`case-${row.number}`} open={isOpen}>
      <Opener toggle={toggle}>
        <span className="muted">{number(row.number)}</span>
        <RowName row={row} />
        <span className="clip" title={row.expected === null ? undefined : visible(row.expected)}>
          {row.expected === null ? (
            <span className="muted">no label</span>
          ) : (
            <>
              <span className="only-s muted">label </span>
              <bdi className="mono">{visible(row.expected)}</bdi>
            </>
          )}
          {isLabelled && <small className="muted block">labelled since</small>}
        </span>
        <Did name="recorded" text={row.recorded} right={row.was_right} />
        <Did name="candidate" text={row.candidate} right={row.is_right} />
        <CaseVerdict row={row} />
      </Opener>
      {isOpen && children}
    </details>
  );
}

export function CaseVerdict({ row }: { row: Parameters<typeof verdictOf>[0] & { verdict?: string | null } }) {
  const found = verdictOf(row);
  return (
    <span className="nowrap">
      {"state" in found ? <State {...found} bare /> : <span className="muted">{found.word}</span>}
      {row.verdict && <small className="muted block">judge: {visible(row.verdict)}</small>}
    </span>
  );
}

/** The row of a case, as a line names it. */
export function RowName({ row }: { row: Pick<CaseRow, "relation" | "key" | "title"> }) {
  return (
    <span className="clip" title={visible([row.key, row.title].filter(Boolean).join(" "))}>
      <span className="mono">{row.relation && <span className="muted">{visible(tableName(row.relation))} </span>}</span>
      {row.key !== null && <b className="strong mono">{visible(row.key)}</b>} <bdi>{visible(row.title ?? "")}</bdi>
    </span>
  );
}

/** What a version did, in a line: with a color where it is known to be right, and never by that alone. */
export function Did({ name, text, right }: { name: string; text: string | null; right: boolean | null }) {
  if (text === null) return <span className="muted clip">nothing recorded</span>;
  const word = right === null ? "" : right ? "right" : "wrong";
  return (
    <span className="clip" title={visible(text)}>
      <span className="vh">
        {name} {word}:{" "}
      </span>
      <span className="only-s muted" aria-hidden="true">
        {name}{" "}
      </span>
      <bdi className={`did ${word}`}>{visible(text)}</bdi>
    </span>
  );
}
