/** Ask: a question, its answer, the plan as a graph, the statements, the rows, a chart. */
import { type FormEvent, lazy, Suspense, useEffect, useState } from "react";

import { money, number } from "../data/format";
import { mutate } from "../data/mutate";
import { Refused, request } from "../data/request";
import { useTitle } from "../frame/title";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Notice, Problem } from "../parts/notice";
import { Panel } from "../parts/panel";
import { State } from "../parts/state";
import { download } from "../parts/payload";
import { toast, toastProblem } from "../parts/toast";

const Plan = lazy(() => import("./ask-plan"));
const Chart = lazy(() => import("./ask-chart"));
const SHOWN = 100; // rows

export interface PlanStep {
  id: string;
  type: "SQL" | "ANALYZE" | "SEARCH" | "VERIFY";
  description: string;
  depends_on: string[];
}

export interface StepResult {
  step: string;
  type: PlanStep["type"];
  description: string;
  columns: [string, number][];
  rows: (string | null)[][];
  cut: string[];
  query: string;
  error: string;
  findings: string[];
}

export interface Answer {
  status: "answered" | "clarify" | "refused" | "error";
  question: string;
  answer: string;
  sql: string[];
  assumptions: string[];
  caveats: string[];
  sources: string[];
  reasoning: string;
  steps: StepResult[];
  plan: PlanStep[];
  last: string | null;
  role: string;
  session: string;
  run: number;
  tokens: number;
  cost: number | null;
}

const newSession = () => `console-${crypto.randomUUID()}`;

export default function Ask() {
  useTitle("Ask");
  const [refusal, setRefusal] = useState<Refused | null>(null);
  const [text, setText] = useState("");
  const [session, setSession] = useState(newSession);
  const [answers, setAnswers] = useState<readonly Answer[]>([]);
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState<Refused | null>(null);
  useEffect(() => {
    request("GET", "v1/ask").catch((error: Refused) => setRefusal(error));
  }, []);
  const answer = answers[0];
  const ask = async () => {
    if (!text.trim() || isAsking) return;
    setAsking(true);
    setProblem(null);
    try {
      const found = await request<Answer>("POST", "v1/ask", { question: text.trim(), session });
      setAnswers((all) => [found, ...all]);
      setText("");
    } catch (error) {
      setProblem(error as Refused);
    }
    setAsking(false);
  };
  return (
    <>
      <div className="head">
        <h1>Ask</h1>
        <p>Answers come from read-only statements{answer && <>, run as <code>{answer.role}</code></>}.</p>
        {answers.length > 0 && (
          <div className="actions">
            <button
              className="btn quiet"
              type="button"
              onClick={() => {
                setSession(newSession());
                setAnswers([]);
              }}
            >
              New session
            </button>
          </div>
        )}
      </div>
      <div className="stack">
        {refusal ? (
          <Notice tone="info" icon="lock">
            <p className="strong">You cannot ask here: {refusal.message}.</p>
            {refusal.hint && (
              <p>
                <code>{refusal.hint}</code>
              </p>
            )}
          </Notice>
        ) : (
          <Question text={text} setText={setText} isAsking={isAsking} isReply={answer?.status === "clarify"} count={answers.length} onAsk={ask} />
        )}
        {problem && (
          <Panel title="Not answered" flush>
            <Problem error={problem} again={ask} />
          </Panel>
        )}
        {answer && <Answered key={answer.run} answer={answer} />}
        {answers.slice(1).map((each) => (
          <Panel key={each.run} title={each.question}>
            <p>{each.answer}</p>
          </Panel>
        ))}
      </div>
    </>
  );
}

interface QuestionProps {
  text: string;
  setText: (text: string) => void;
  isAsking: boolean;
  isReply: boolean;
  count: number;
  onAsk: () => void;
}

function Question({ text, setText, isAsking, isReply, count, onAsk }: QuestionProps) {
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onAsk();
  };
  return (
    <form className="panel" onSubmit={submit} aria-busy={isAsking || undefined}>
      <div className="body stack tight">
        <label className="vh" htmlFor="question">
          {isReply ? "Reply" : "Question"}
        </label>
        <textarea
          id="question"
          rows={2}
          maxLength={20_000}
          autoFocus
          value={text}
          placeholder={isReply ? "Reply to the question" : count ? "Ask more: it can refer to the answer" : "How many tickets are there in each category?"}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => event.key === "Enter" && (event.metaKey || event.ctrlKey) && onAsk()}
        />
        <div className="row wrap">
          {count > 0 && <span className="chip">{count === 1 ? "1 question" : `${count} questions`} in this session</span>}
          {isAsking && (
            <span role="status">
              <State state="running" bare word="planning and reading" />
            </span>
          )}
          <span className="end row">
            <span className="muted hide-s">
              <kbd>⌘↵</kbd>
            </span>
            <button className="btn primary" type="submit" disabled={isAsking || !text.trim()}>
              {isReply ? "Reply" : "Ask"}
            </button>
          </span>
        </div>
      </div>
    </form>
  );
}

const STATUS: Record<Answer["status"], [state: string, word: string]> = {
  answered: ["done", "answered"],
  clarify: ["question", "asks back"],
  refused: ["failed", "cannot be answered"],
  error: ["failed", "failed"],
};

function Answered({ answer }: { answer: Answer }) {
  const [state, word] = STATUS[answer.status];
  const last = answer.steps.find((each) => each.step === answer.last);
  return (
    <div className={last ? "grid-2 break-m" : "stack"}>
      <div className="stack">
        <Panel title={answer.status === "clarify" ? "Question back" : "Answer"} aside={<State state={state} word={word} />} end={<Copy text={answer.answer} />}>
          <div className="stack tight">
            <p className="muted">{answer.question}</p>
            <p className="answer" role="status">
              {answer.answer}
            </p>
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
                {answer.plan.length} {answer.plan.length === 1 ? "step" : "steps"} · {number(answer.tokens)} tokens · {money(answer.cost)}
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
            <Panel key={each.step} title={each.type === "SQL" ? "SQL" : "SQL over the results"} aside={<span className="muted clip">{each.description}</span>} end={<Copy text={each.query} />}>
              <pre tabIndex={0} className="code wrap">
                {each.query}
              </pre>
              {each.error && <p className="missing">{each.error}</p>}
            </Panel>
          ))}
      </div>
      {last && (
        <div className="stack">
          <Result result={last} />
          <Suspense fallback={null}>
            <Chart result={last} />
          </Suspense>
          <Checks answer={answer} />
        </div>
      )}
    </div>
  );
}

function Result({ result }: { result: StepResult }) {
  const csv = () => [result.columns.map(([name]) => name), ...result.rows].map((row) => row.map((each) => (each === null ? "" : `"${safe(each).replaceAll('"', '""')}"`)).join(",")).join("\n");
  return (
    <Panel
      title="Result"
      flush
      aside={<span className="muted">{result.rows.length === 1 ? "1 row" : `${number(result.rows.length)} rows`}</span>}
      end={
        <button type="button" className="copy" onClick={() => download("result.csv", csv(), "text/csv")}>
          <Icon name="dl" small />
          CSV
        </button>
      }
      foot={[...(result.rows.length > SHOWN ? [`The first ${SHOWN} rows are shown; the CSV has all.`] : []), ...result.cut].join(" ") || undefined}
    >
      <div className="scroll" tabIndex={0} role="group" aria-label="Rows">
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
                    {each ?? <span className="null-v">NULL</span>}
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

/** What a spreadsheet would read as a formula is text. */
const safe = (text: string) => (/^[=+@\t\r]|^-(?![\d.]+$)/.test(text) ? `'${text}` : text);

const NUMBERS = new Set([20, 21, 23, 700, 701, 790, 1700]); // types: int8, int2, int4, float4, float8, money, numeric
export const isNumber = (type: number | undefined): boolean => type !== undefined && NUMBERS.has(type);

function Checks({ answer }: { answer: Answer }) {
  const [isSaved, setSaved] = useState(false);
  const sql = answer.sql.at(-1);
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
