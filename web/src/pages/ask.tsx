/** Ask: a question, its answer, the plan as a graph, the statements, the rows, a chart. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, type SubmitEvent, lazy, type RefObject, Suspense, useEffect, useRef, useState } from "react";

import { csv } from "../data/csv";
import { money, number } from "../data/format";
import { useTyped } from "../data/draft";
import { isMac, isNarrow } from "../data/local";
import { mutate } from "../data/mutate";
import { useQueryOnce } from "../data/queries";
import {
  type Answer,
  answerOf,
  isNumber,
  type Question,
  type QuestionRow,
  type StepResult,
  useProgress,
  useQuestions,
} from "../data/questions";
import { Refused, request, refused } from "../data/request";
import { shownOf } from "../data/shown";
import { useTitle } from "../frame/title";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Notice, Problem } from "../parts/notice";
import { Panel, Skeleton } from "../parts/panel";
import { download } from "../parts/payload";
import { Blank } from "../parts/rowdiff";
import { Sql } from "../parts/sql";
import { Prose } from "../parts/prose";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";

const Plan = lazy(() => import("./ask-plan"));
const Chart = lazy(() => import("./ask-chart"));
const SHOWN = 100; // rows
const FEW = 8; // questions

const newSession = () => `console-${crypto.randomUUID()}`;

export default function Ask(): ReactNode {
  useTitle("Ask");
  const { question: opened } = useSearch({ from: "/signed-in/ask" });
  const navigate = useNavigate();
  const [refusal, setRefusal] = useState<Refused | null>(null);
  const [text, setText] = useTyped("question");
  const [session, setSession] = useState(newSession);
  const [answers, setAnswers] = useState<readonly Answer[]>([]);
  const [asked, setAsked] = useState<string | null>(null);
  const [problem, setProblem] = useState<Refused | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    request("GET", "v1/ask").catch((error: unknown) => setRefusal(refused(error)));
  }, []);
  const answer = opened ? undefined : answers[0];
  const ask = async (question: string) => {
    if (!question.trim() || asked !== null) return;
    setAsked(question.trim());
    setProblem(null);
    if (opened) void navigate({ to: "/ask" });
    try {
      const found = await request<Answer>("POST", "v1/ask", { question: question.trim(), session });
      setAnswers((all) => [found, ...all]);
      setText("");
    } catch (error) {
      setText(question);
      setProblem(refused(error));
    }
    setAsked(null);
  };
  const edit = (question: string) => {
    setText(question);
    field.current?.focus();
  };
  const again = (question: string) => void ask(question);
  return (
    <>
      <div className="head">
        <h1>Ask</h1>
        <p>
          Answers come from read-only statements
          {answer && (
            <>
              , run as <code>{answer.role}</code>
            </>
          )}
          .
        </p>
        {answers.length > 0 && (
          <div className="actions">
            <button
              className="btn quiet"
              type="button"
              onClick={() => {
                setSession(newSession());
                setAnswers([]);
                field.current?.focus();
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
          <QuestionForm
            field={field}
            text={text}
            setText={setText}
            isAsking={asked !== null}
            isReply={answer?.status === "clarify"}
            count={answers.length}
            onAsk={() => void ask(text)}
          />
        )}
        {asked !== null && <Progress question={asked} session={session} />}
        {problem && (
          <Panel title="Not answered" flush>
            <Problem error={problem} again={() => void ask(text)} />
          </Panel>
        )}
        {opened && <Opened key={opened} id={opened} edit={edit} again={again} mayAsk={!refusal} />}
        {asked === null && answer && <Answered key={answer.run} answer={answer} edit={edit} again={again} />}
        {!opened &&
          answers.slice(1).map((each) => (
            <Panel key={each.run} title={each.question}>
              <Prose text={each.answer} />
            </Panel>
          ))}
        <Earlier opened={opened} shown={answers} />
      </div>
    </>
  );
}

/** What is done for a question while it is answered: the plan, its steps, the answer. */
function Progress({ question, session }: { question: string; session: string }) {
  const { plan, results, isPlanned } = useProgress(session);
  const done = new Map(results.map((each) => [each.step, each]));
  const isRead = isPlanned && plan.every((step) => done.has(step.id));
  return (
    <Panel title="Working" aside={<span className="muted clip">{question}</span>}>
      <div role="status" aria-label="Progress">
        <ul className="stack tight">
          <li className="row">
            <State state={isPlanned ? "done" : "running"} word={isPlanned ? "planned" : "planning"} />
            {isPlanned && <span className="soft">{plan.length === 1 ? "1 step" : `${plan.length} steps`}</span>}
          </li>
          {plan.map((step) => {
            const result = done.get(step.id);
            const isNext = step.depends_on.every((each) => done.has(each));
            return (
              <li className="row" key={step.id}>
                {result ? (
                  <State
                    state={result.error ? "failed" : "done"}
                    word={result.error ? "failed" : `${number(result.rows ?? 0)} ${result.rows === 1 ? "row" : "rows"}`}
                  />
                ) : (
                  <State state={isNext ? "running" : "pending"} word={isNext ? "reading" : "waits"} />
                )}
                <span className="soft">{result?.error ?? step.description}</span>
              </li>
            );
          })}
          {isPlanned && (
            <li className="row">
              <State state={isRead ? "running" : "pending"} word={isRead ? "writing the answer" : "answer"} />
            </li>
          )}
        </ul>
      </div>
    </Panel>
  );
}

interface Again {
  edit: (question: string) => void;
  again: (question: string) => void;
}

/** A question of before, with the rows that it rested on then. */
function Opened({ id, edit, again, mayAsk }: Again & { id: string; mayAsk: boolean }) {
  const { rows, error, again: read } = useQueryOnce<Question>("question", { id });
  const question = rows?.[0];
  const isOpen = question && !question.answer && ["pending", "running", "waiting_retry"].includes(question.state ?? "");
  useEffect(() => {
    if (!isOpen) return;
    const timer = setInterval(read, 2_000);
    return () => clearInterval(timer);
  }, [isOpen, read]);
  if (error && !rows)
    return (
      <Panel title="Question" flush>
        <Problem error={error} again={read} />
      </Panel>
    );
  if (rows === null)
    return (
      <Panel label="Question" flush busy>
        <Skeleton />
      </Panel>
    );
  if (!question)
    return (
      <Panel title="Question">
        <p>Question {id} does not exist, or it is not yours.</p>
      </Panel>
    );
  if (isOpen) return <Progress question={question.text} session={question.session} />;
  if (!question.answer)
    return (
      <Panel
        title="Not answered"
        aside={<State state="failed" />}
        end={mayAsk && <AskAgain question={question.text} edit={edit} again={again} />}
      >
        <p className="muted">{question.text}</p>
        <p>{question.reason ?? "The question was ended before it was answered."}</p>
      </Panel>
    );
  return <Answered answer={answerOf(question)} edit={mayAsk ? edit : undefined} again={again} at={question.asked_at} />;
}

function AskAgain({ question, edit, again }: Again & { question: string }) {
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

/** The caller's own questions. */
function Earlier({ opened, shown }: { opened: string | undefined; shown: readonly Answer[] }) {
  const { rows } = useQuestions();
  const [isAll, showAll] = useState(false);
  const runs = new Set(shown.map((each) => String(each.run)));
  const earlier = rows.filter((row) => opened || !runs.has(row.run_id ?? ""));
  if (earlier.length === 0) return null;
  return (
    <Panel
      title="Your questions"
      id="questions"
      foot={
        !isAll && earlier.length > FEW ? (
          <button className="btn quiet small" type="button" onClick={() => showAll(true)}>
            {earlier.length - FEW} more
          </button>
        ) : undefined
      }
      flush
    >
      <Table<QuestionRow>
        label="Your questions"
        rows={isAll ? earlier : earlier.slice(0, FEW)}
        rowKey={(row) => row.id}
        columns={[
          {
            title: "Question",
            className: "c0",
            cell: (row) => (
              <Link
                className="plain clip"
                to="/ask"
                search={{ question: row.id }}
                aria-current={row.id === opened || undefined}
              >
                {row.text} <span className="muted">{row.answer ?? row.reason}</span>
              </Link>
            ),
          },
          { title: "State", className: "inline nowrap", cell: (row) => <QuestionState row={row} /> },
          { title: "Asked", label: "Asked", className: "num nowrap inline", cell: (row) => <Time at={row.asked_at} /> },
        ]}
      />
    </Panel>
  );
}

function QuestionState({ row }: { row: QuestionRow }) {
  if (row.status && row.status in STATUS) {
    const [state, word] = STATUS[row.status];
    return <State state={state} word={word} />;
  }
  return <State state={row.state ?? "cancelled"} />;
}

interface QuestionProps {
  field: RefObject<HTMLTextAreaElement | null>;
  text: string;
  setText: (text: string) => void;
  isAsking: boolean;
  isReply: boolean;
  count: number;
  onAsk: () => void;
}

function QuestionForm({ field, text, setText, isAsking, isReply, count, onAsk }: QuestionProps) {
  const submit = (event: SubmitEvent) => {
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
          ref={field}
          rows={2}
          maxLength={20_000}
          autoFocus={!isNarrow()}
          value={text}
          placeholder={
            isReply ? "Reply to the question" : count ? "Ask more: it can refer to the answer" : "Ask about your tables"
          }
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => event.key === "Enter" && (event.metaKey || event.ctrlKey) && onAsk()}
        />
        <div className="row wrap">
          {count > 0 && (
            <span className="chip">{count === 1 ? "1 question" : `${count} questions`} in this session</span>
          )}
          <span className="end row">
            <span className="muted hide-s">
              <kbd>{isMac ? "⌘↵" : "Ctrl ↵"}</kbd>
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

interface AnsweredProps {
  answer: Answer;
  edit: Again["edit"] | undefined;
  again: Again["again"];
  at?: string;
}

function Answered({ answer, edit, again, at }: AnsweredProps) {
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
