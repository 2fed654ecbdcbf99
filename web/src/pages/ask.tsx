/** Ask: a question, its answer, the plan as a graph, the statements, the rows, a chart. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, type SubmitEvent, type RefObject, useEffect, useRef, useState } from "react";

import { useTyped } from "../data/draft";
import { isMac, isNarrow } from "../data/local";
import { type Answer } from "../data/questions";
import { Refused, request, refused } from "../data/request";
import { useTitle } from "../frame/title";
import { Notice, Problem } from "../parts/notice";
import { Panel } from "../parts/panel";
import { Prose } from "../parts/prose";
import { Answered } from "./ask-answer";
import { Earlier } from "./ask-earlier";
import { Progress, Opened } from "./ask-opened";

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
