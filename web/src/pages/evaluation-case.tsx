/** One case, opened: the row, the label, and both versions side by side. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { duration, money, number } from "../data/format";
import type { Line } from "../data/changes";
import {
  type CaseCall,
  type CaseChange,
  type CaseDetail,
  type CaseOutcome,
  type Label,
  labelLines,
} from "../data/evaluations";
import { useQueryOnce } from "../data/queries";
import { visible } from "../data/visible";
import { Lines, RowLink, WITHOUT } from "../parts/changed";
import { Icon, type IconName } from "../parts/icon";
import { Problem } from "../parts/notice";
import { Skeleton } from "../parts/panel";
import { Cell } from "../parts/rowdiff";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { GiveLabel } from "./evaluation-label";
import { QuestionCase } from "./evaluation-question";
import { ChangeRows } from "./run-cause";
import { callText } from "./steps";

interface CaseProps {
  evaluation: string;
  model: string;
  of: number;
  onLabel: () => void;
}

export function Case({ evaluation, model, of, onLabel }: CaseProps) {
  const { rows, error, again } = useQueryOnce<CaseDetail>("evaluation_case", { evaluation, number: of });
  const row = rows?.find((each) => each.number === of);
  if (!row) {
    if (error) return <Problem error={error} again={again} />;
    return rows?.length === 0 ? <p className="note muted">There is no such case.</p> : <Skeleton />;
  }
  if (row.candidate.question !== undefined) return <QuestionCase of={of} row={row} />;
  return (
    <div className="gbody" aria-label={`Case ${of}`} role="group">
      <div className="grid-eq">
        <div className="stack tight">
          <div className="row wrap">
            <h3>Row</h3>
            {row.change && <span className="chip mono">{row.change.op.toUpperCase()}</span>}
            {row.relation && <RowLink row={{ relation: row.relation, key: row.key }} />}
            {Number(row.merged) > 0 && (
              <span className="muted">after {number(row.merged)} more, which were merged into the run</span>
            )}
          </div>
          {row.change ? (
            <ChangeRows change={row.change} />
          ) : (
            <p className="muted">The change is not kept any more: its run was removed.</p>
          )}
        </div>
        <div className="stack tight">
          <h3>Label</h3>
          {row.expected ? (
            <LabelTable label={row.expected} hidden={row.hidden} name="What was expected" />
          ) : (
            <p className="muted">It had none when the case was executed.</p>
          )}
          <Since row={row} />
          <GiveLabel key={row.digest} evaluation={evaluation} row={row} again={again} onLabel={onLabel} />
        </div>
      </div>
      <div className="grid-eq">
        <Side title="Recorded" icon="runs" outcome={row.recorded} right={row.was_right}>
          {row.run_id && (
            <span className="muted">
              {row.has_run ? (
                <Link to="/runs/$run" params={{ run: row.run_id }} activeProps={{}}>
                  run {row.run_id}
                </Link>
              ) : (
                `run ${row.run_id}`
              )}
            </span>
          )}
        </Side>
        <Side title="Candidate" icon="scale" outcome={row.candidate} right={row.is_right} isTried>
          <span className="muted">{visible(model)}</span>
        </Side>
      </div>
      {row.verdict && (
        <p className="wrapped">
          <b className="strong">Judge:</b>{" "}
          {row.verdict.right
            ? `${visible(row.verdict.right)} ${row.verdict.right === "both" ? "are" : "is"} right`
            : visible(row.verdict.error ?? "no verdict")}
          {row.verdict.reason && (
            <>
              . <bdi className="soft">{visible(row.verdict.reason)}</bdi>
            </>
          )}
        </p>
      )}
      <Changes row={row} />
    </div>
  );
}

interface LabelTableProps {
  label: Label | null;
  hidden: readonly string[];
  name: string;
}

/** What a label says, with the names of what the reader may not read. */
function LabelTable({ label, hidden, name }: LabelTableProps) {
  return (
    <table className="rowdiff" aria-label={name}>
      <tbody>
        {Object.entries(labelLines(label)).map(([column, value]) => (
          <tr key={column}>
            <td>{visible(column)}</td>
            <td>
              <Cell value={value} />
            </td>
          </tr>
        ))}
        {hidden.map((column) => (
          <tr key={column}>
            <td>{visible(column)}</td>
            <td>
              <span className="null" title={WITHOUT.hidden[1]}>
                {WITHOUT.hidden[0]}
              </span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The label of now, where it is another one. */
function Since({ row }: { row: CaseDetail }) {
  if (row.labelled_at === null || JSON.stringify(row.label) === JSON.stringify(row.expected)) return null;
  return (
    <>
      <p className="muted">
        Labelled since by {visible(row.labelled_by ?? "")} <Time at={row.labelled_at} />, for later evaluations:
      </p>
      <LabelTable label={row.label} hidden={row.label_hidden} name="What is expected now" />
    </>
  );
}

interface SideProps {
  title: string;
  icon: IconName;
  outcome: (CaseOutcome & Partial<CaseDetail["candidate"]>) | null;
  right: boolean | null;
  /** Whether nothing of it was kept. */
  isTried?: boolean;
  children: ReactNode;
}

function Side({ title, icon, outcome, right, isTried = false, children }: SideProps) {
  if (!outcome)
    return (
      <section className="stack tight" aria-label={title}>
        <h3>{title}</h3>
        <p className="muted">No run of this change is recorded.</p>
      </section>
    );
  const calls = outcome.calls ?? [];
  return (
    <section className="stack tight" aria-label={title}>
      <div className="row wrap">
        <Icon name={icon} small />
        <h3>{title}</h3>
        {right !== null && <State state={right ? "done" : "failed"} word={right ? "right" : "wrong"} bare />}
        {outcome.state !== "succeeded" && <State state={outcome.state} bare />}
        {children}
      </div>
      {calls.map((call, i) => (
        <CallLine key={i} call={call} right={right} isTried={isTried} />
      ))}
      {calls.length === 0 && <p className="muted">It called nothing.</p>}
      {outcome.not_called?.map((call, i) => (
        <p key={i} className="wrapped">
          <bdi className="did">{visible(callText(call.tool, call.arguments))}</bdi>{" "}
          <span className="chip warn" title="It acts outside the database, and no recorded call is equal">
            not called
          </span>
        </p>
      ))}
      {outcome.error && (
        <p className="wrong wrapped">
          <bdi>{visible(outcome.error)}</bdi>
        </p>
      )}
      {outcome.result && (
        <blockquote className="soft wrapped">
          <bdi>{visible(outcome.result)}</bdi>
        </blockquote>
      )}
      <p className="muted">
        {number(outcome.tokens)} tokens, {outcome.cost == null ? "no price" : money(Number(outcome.cost))},{" "}
        {duration(outcome.seconds * 1_000)} of the model
      </p>
    </section>
  );
}

function CallLine({ call, right, isTried }: { call: CaseCall; right: boolean | null; isTried: boolean }) {
  const isEffect = call.state === "done" && !call.reads;
  const word = isEffect && right !== null ? (right ? "right" : "wrong") : "";
  return (
    <p className="wrapped">
      <bdi className={`did ${word}`}>{visible(callText(call.tool, call.arguments))}</bdi>{" "}
      {call.reads && <span className="muted">reads</span>}
      {call.state !== "done" && <span className="chip warn">{call.state}</span>}
      {isTried && isEffect && <span className="chip">rolled back</span>}
    </p>
  );
}

/** What the candidate would have written. */
function Changes({ row }: { row: CaseDetail }) {
  const unknown = Object.entries(row.candidate.not_compared ?? {});
  if (row.changes.length === 0 && unknown.length === 0) return null;
  return (
    <section className="stack tight" aria-label="Rows that it would change">
      <div className="row wrap">
        <h3>Rows that the candidate would change</h3>
        <span className="chip">rolled back</span>
      </div>
      {row.changes.map((change, i) => (
        <div key={i} className="stack tight">
          <p className="row wrap">
            <span className="chip mono">{change.operation.toUpperCase()}</span>
            <code>{visible(change.table)}</code>
            {change.before === undefined && change.after === undefined && (
              <span className="muted">{visible(change.columns.join(", "))}: of other rows, values are not kept</span>
            )}
          </p>
          <Lines lines={changeLines(change)} label={`Columns of ${change.table}`} />
        </div>
      ))}
      {unknown.map(([table, reason]) => (
        <p key={table} className="muted wrapped">
          <code>{visible(table)}</code> was not compared: {visible(reason)}
        </p>
      ))}
    </section>
  );
}

/** The values of a changed row; one that is missing is hidden from the reader. */
function changeLines({ operation, columns, before, after }: CaseChange): Line[] {
  if (before === undefined && after === undefined) return [];
  const value = (image: CaseChange["before"], column: string): Line["before"] => {
    const text = image?.[column];
    return text === null ? "null" : text === undefined ? "hidden" : { text, isCut: false };
  };
  return columns.map((column) => ({
    column,
    before: operation === "insert" ? null : value(before, column),
    after: operation === "delete" ? null : value(after, column),
  }));
}
