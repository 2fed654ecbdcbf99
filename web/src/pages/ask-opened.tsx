/** A question that is being answered, and one of before. */
import { useEffect } from "react";

import { number } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { answerOf, type Question, useProgress } from "../data/questions";
import { Problem } from "../parts/notice";
import { Panel, Skeleton } from "../parts/panel";
import { State } from "../parts/state";
import { type Again, AskAgain, Answered } from "./ask-answer";

/** What is done for a question while it is answered: the plan, its steps, the answer. */
export function Progress({ question, session }: { question: string; session: string }) {
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

/** A question of before, with the rows that it rested on then. */
export function Opened({ id, edit, again, mayAsk }: Again & { id: string; mayAsk: boolean }) {
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
