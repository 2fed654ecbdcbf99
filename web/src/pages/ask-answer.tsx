/** An answer: its text, the plan as a graph, the statements, the rows, a chart, what was checked. */
import { lazy, Suspense, useState } from "react";

import { csv } from "../data/csv";
import { money, number } from "../data/format";
import { mutate } from "../data/mutate";
import { type Answer, isNumber, type StepResult } from "../data/questions";
import { shownOf } from "../data/shown";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Panel } from "../parts/panel";
import { download } from "../parts/payload";
import { Blank } from "../parts/rowdiff";
import { Sql } from "../parts/sql";
import { Prose } from "../parts/prose";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";

const Plan = lazy(() => import("./ask-plan"));
const Chart = lazy(() => import("./ask-chart"));
const SHOWN = 100; // rows

export interface Again {
  edit: (question: string) => void;
  again: (question: string) => void;
}

export function AskAgain({ question, edit, again }: Again & { question: string }) {
  return (
    <>
      <button className="btn quiet small" type="button" onClick={() => edit(question)}>
        <Icon name="edit" small />
        Edit
      </button>
      <button className="btn quiet small" type="button" onClick={() => again(question)}>
        <Icon name="retry" small />
        Ask again
      </button>
    </>
  );
}

export const STATUS: Record<Answer["status"], [state: string, word: string]> = {
  answered: ["done", "answered"],
  clarify: ["question", "asks back"],
  refused: ["failed", "cannot be answered"],
  error: ["failed", "failed"],
};

interface AnsweredProps {
  answer: Answer;
  edit: Again["edit"] | undefined;
  again: Again["again"];
  at?: string;
}

export function Answered({ answer, edit, again, at }: AnsweredProps) {
  const [state, word] = STATUS[answer.status];
  const last = answer.steps.find((each) => each.step === answer.last);
  const shown = shownOf(answer);
  return (
    <div className={last ? "grid-2 break-m" : "stack"}>
      <div className="stack">
        <Panel
          title={answer.status === "clarify" ? "Question back" : "Answer"}
          aside={<State state={state} word={word} />}
          end={
            <>
              {edit && <AskAgain question={answer.question} edit={edit} again={again} />}
              <Copy text={answer.answer} />
            </>
          }
        >
          <div className="stack tight">
            <p className="muted">
              {answer.question}
              {at && (
                <>
                  {" "}
                  · asked <Time at={at} />
                </>
              )}
            </p>
            <div className="answer" role="status" dir="auto">
              <Prose text={answer.answer} />
            </div>
            {answer.assumptions.map((each) => (
              <p className="soft" key={each}>
                {each}
              </p>
            ))}
          </div>
        </Panel>
        {answer.plan.length > 0 && (
          <Panel
            title="Plan"
            end={
              <span className="muted">
                {answer.plan.length} {answer.plan.length === 1 ? "step" : "steps"} · {number(answer.tokens)} tokens ·{" "}
                {money(answer.cost)}
              </span>
            }
          >
            <Suspense fallback={<p className="muted">Drawing the plan</p>}>
              <Plan answer={answer} />
            </Suspense>
          </Panel>
        )}
        {answer.steps
          .filter((each) => each.type === "SQL" || each.type === "ANALYZE")
          .map((each) => (
            <Panel
              key={each.step}
              title={each.type === "SQL" ? "SQL" : "SQL over the results"}
              aside={<span className="muted clip">{each.description}</span>}
              end={<Copy text={each.query} />}
            >
              <pre tabIndex={0} className="code wrap">
                <Sql text={each.query} />
              </pre>
              {each.error && <p className="missing">{each.error}</p>}
            </Panel>
          ))}
      </div>
      {last && (
        <div className="stack">
          {shown.map((each) => (
            <Result key={each.step} result={each} isOneOf={shown.length > 1} />
          ))}
          <Suspense fallback={null}>
            <Chart result={last} />
          </Suspense>
          <Checks answer={answer} />
        </div>
      )}
    </div>
  );
}

function Result({ result, isOneOf }: { result: StepResult; isOneOf: boolean }) {
  return (
    <Panel
      title={isOneOf ? result.description : "Result"}
      flush
      aside={<span className="muted">{result.rows.length === 1 ? "1 row" : `${number(result.rows.length)} rows`}</span>}
      end={
        <button
          type="button"
          className="copy"
          onClick={() =>
            download(
              isOneOf ? `${result.step}.csv` : "result.csv",
              csv(
                result.columns.map(([name]) => name),
                result.rows,
              ),
              "text/csv",
            )
          }
        >
          <Icon name="dl" small />
          CSV
        </button>
      }
      foot={
        [
          ...(result.rows.length > SHOWN ? [`The first ${SHOWN} rows are shown; the CSV has all.`] : []),
          ...result.cut,
        ].join(" ") || undefined
      }
    >
      <div className="scroll" tabIndex={0} role="group" aria-label={isOneOf ? `Rows: ${result.description}` : "Rows"}>
        <table>
          <thead>
            <tr>
              {result.columns.map(([name, type], at) => (
                <th key={at} scope="col" className={isNumber(type) ? "num" : undefined}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {result.rows.slice(0, SHOWN).map((row, n) => (
              <tr key={n}>
                {row.map((each, at) => (
                  <td key={at} className={isNumber(result.columns[at]?.[1]) ? "num" : undefined}>
                    {each === "" ? <Blank /> : (each ?? <span className="null-v">NULL</span>)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Checks({ answer }: { answer: Answer }) {
  const [isSaved, setSaved] = useState(false);
  // Of the rows that are shown: statements that ran at the same time end in any order.
  const shown = answer.steps.find((each) => each.step === answer.last && each.type === "SQL");
  const sql = shown?.query ?? answer.sql.at(-1);
  const save = async () => {
    try {
      await mutate("save_query", { question: answer.question, sql });
      setSaved(true);
      toast("Saved: it is an example for your later questions.");
    } catch (error) {
      toastProblem(error);
    }
  };
  return (
    <Panel
      title="Checks"
      foot={
        sql && answer.status === "answered" ? (
          <button className="btn small" type="button" disabled={isSaved} onClick={save}>
            <Icon name="star" small />
            {isSaved ? "Saved as verified" : "Save as verified"}
          </button>
        ) : undefined
      }
    >
      <ul className="stack tight">
        <li className="row">
          <State state="done" word="read-only" />
          <span className="soft">PostgreSQL and the guard allowed each statement</span>
        </li>
        {answer.caveats.map((each) => (
          <li key={each} className="row">
            <State state="review" word="note" />
            <span className="soft">{each}</span>
          </li>
        ))}
        {answer.caveats.length === 0 && (
          <li className="row">
            <State state="done" word="no note" />
          </li>
        )}
      </ul>
    </Panel>
  );
}
