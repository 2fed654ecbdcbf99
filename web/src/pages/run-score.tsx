/** What people say of a run: right, wrong, or that nobody can be sure. */
import { useState } from "react";

import { useQueryOnce } from "../data/queries";
import type { RunDetail } from "../data/runs";
import { type Answer, answerOf, score, type Score } from "../data/scores";
import { visible } from "../data/visible";
import { FormDialog } from "../parts/form-dialog";
import { Name } from "../parts/name";
import { Panel } from "../parts/panel";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";
import { useMayOperate } from "./failed-group";

/** One press says right; wrong is asked for the reason, which the next reader needs. */
export function ScoreButtons({ run, onSaid }: { run: string; onSaid: (answer: Answer) => void }) {
  const [isAsking, ask] = useState(false);
  const [isSending, setSending] = useState(false);
  const say = (answer: Answer) => async () => {
    setSending(true);
    try {
      await score(run, answer);
      toast(`Run ${run} is scored as ${answer === "unsure" ? "not sure" : answer}.`);
      onSaid(answer);
    } catch (error) {
      toastProblem(error);
    }
    setSending(false);
  };
  return (
    <span className="row wrap">
      <button type="button" className="btn small" disabled={isSending} onClick={say("right")}>
        Right
      </button>
      <button type="button" className="btn small" disabled={isSending} onClick={() => ask(true)}>
        Wrong…
      </button>
      <button type="button" className="btn quiet small" disabled={isSending} onClick={say("unsure")}>
        Not sure
      </button>
      {isAsking && <Wrong run={run} onSaid={() => onSaid("wrong")} onClose={() => ask(false)} />}
    </span>
  );
}

function Wrong({ run, onSaid, onClose }: { run: string; onSaid: () => void; onClose: () => void }) {
  const [comment, setComment] = useState("");
  const send = async () => {
    await score(run, "wrong", comment);
    toast(`Run ${run} is scored as wrong.`);
  };
  return (
    <FormDialog
      title={`What was wrong with run ${run}?`}
      action="It was wrong"
      keep="Say nothing"
      isReady
      send={send}
      again={onSaid}
      onClose={onClose}
    >
      <p>
        All that it wrote counts as wrong. The rows stay as they are: correct them in the table, or take the run back.
      </p>
      <label className="field">
        Note (optional)
        <textarea
          rows={4}
          maxLength={10_000}
          value={comment}
          onChange={(event) => setComment(event.target.value)}
          placeholder="For example: a refund was asked for, not an invoice"
        />
      </label>
    </FormDialog>
  );
}

const SCORED = ["agent", "turn", "node", "question"];
const ENDED = ["succeeded", "failed", "dead", "cancelled", "skipped"];

/** On the page of a run that has ended: what was said, and the buttons for those who may. */
export function RunScores({ run }: { run: RunDetail }) {
  const isEnded = SCORED.includes(run.kind) && ENDED.includes(run.state);
  const { rows, again } = useQueryOnce<Score>("scores", { run: run.id }, { skip: !isEnded });
  const mayOperate = useMayOperate();
  if (!isEnded || rows === null || (rows.length === 0 && !mayOperate)) return null;
  return (
    <Panel
      title="Scores"
      id="scores"
      aside={<span className="muted">what people say of it</span>}
      foot={mayOperate ? <ScoreButtons run={run.id} onSaid={again} /> : undefined}
      flush
    >
      {rows.map((row) => (
        <article key={row.principal} className="chg">
          <p className="row wrap">
            <State {...answerOf(row.value)} />
            <Name text={visible(row.principal)} />
            <span className="muted">
              <Time at={row.scored_at} />
            </span>
          </p>
          {row.comment && (
            <p>
              <bdi>{visible(row.comment)}</bdi>
            </p>
          )}
        </article>
      ))}
      {rows.length === 0 && (
        <div className="body">
          <p className="soft">Nobody has said whether it was right.</p>
        </div>
      )}
    </Panel>
  );
}
