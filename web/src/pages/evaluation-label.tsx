/** Which is right: of a case of a dataset its label, of another one the score of its run. */
import { useState } from "react";

import { type CaseDetail, type Label, labelLines } from "../data/evaluations";
import { textOf } from "../data/exact";
import { mutate } from "../data/mutate";
import { score } from "../data/scores";
import { Refused } from "../data/request";
import { visible } from "../data/visible";
import { useKeys } from "../frame/keyboard";
import { READ } from "../parts/decide";
import { FormDialog } from "../parts/form-dialog";
import { toast, toastProblem } from "../parts/toast";
import { useMayOperate } from "./failed-group";
import { ScoreButtons } from "./run-score";

/** Say what is expected on the change of a case; refused with 404 if the case is no longer as it was read. */
async function labelCase(
  evaluation: string,
  { number, digest }: Pick<CaseDetail, "number" | "digest">,
  expected: Label | string | null,
): Promise<void> {
  await mutate("label_case", { evaluation, number, digest, expected });
}

interface GiveLabelProps {
  evaluation: string;
  row: CaseDetail;
  again: () => void;
  onLabel: () => void;
}

export function GiveLabel(props: GiveLabelProps) {
  const { row, again, onLabel } = props;
  const mayOperate = useMayOperate();
  if (!mayOperate) return null;
  if (row.dataset !== null) return <LabelButtons {...props} />;
  if (row.run_id === null || !row.has_run)
    return <p className="muted">It can get none: its case of the dataset, or its run, was removed.</p>;
  return (
    <ScoreRun
      run={row.run_id}
      onSaid={() => {
        onLabel();
        again();
      }}
    />
  );
}

/** The score of the recorded run, with the key of the recorded side. */
function ScoreRun({ run, onSaid }: { run: string; onSaid: () => void }) {
  const [since] = useState(() => Date.now());
  const right = async () => {
    try {
      await score(run, "right");
      toast(`Run ${run} is scored as right.`);
      onSaid();
    } catch (error) {
      toastProblem(error);
    }
  };
  useKeys({ 1: () => (Date.now() - since < READ ? false : void right()) });
  return (
    <div className="stack tight">
      <p className="muted">
        Was run {run} right (<kbd>1</kbd>)? Later evaluations take its score as the label; this one stays as it is.
      </p>
      <ScoreButtons run={run} onSaid={onSaid} />
    </div>
  );
}

function LabelButtons({ evaluation, row, again, onLabel }: GiveLabelProps) {
  const [isAsking, ask] = useState(false);
  const [isSending, setSending] = useState(false);
  const [since] = useState(() => Date.now());
  const { recorded, candidate } = row.labels;
  const give = async (expected: Label | null) => {
    // What came on screen just now was not read.
    if (isSending || Date.now() - since < READ) return;
    setSending(true);
    try {
      await labelCase(evaluation, row, expected);
      toast(
        expected
          ? `Case ${row.number} is labelled, for later evaluations of ${row.dataset}.`
          : `The label of case ${row.number} is removed.`,
      );
      onLabel();
    } catch (error) {
      if (error instanceof Refused && error.status === 404)
        toast(`Somebody has labelled case ${row.number} meanwhile. It is read again.`, { state: "failed" });
      else toastProblem(error);
    }
    setSending(false);
    again();
  };
  useKeys({
    1: () => (recorded ? void give(recorded) : false),
    2: () => (candidate ? void give(candidate) : false),
    3: () => ask(true),
  });
  return (
    <div className="stack tight">
      <p className="muted">
        Which is right? The answer is the label of this change in dataset <bdi>{visible(row.dataset ?? "")}</bdi>, for
        later evaluations; this one stays as it is.
      </p>
      <p className="row wrap">
        <Choice label={recorded} word="Recorded" at="1" isSending={isSending} give={give} />
        <Choice label={candidate} word="Candidate" at="2" isSending={isSending} give={give} />
        <button type="button" className="btn small" disabled={isSending} onClick={() => ask(true)}>
          Neither… <kbd>3</kbd>
        </button>
        {row.label && (
          <button type="button" className="btn quiet small" disabled={isSending} onClick={() => void give(null)}>
            Remove the label
          </button>
        )}
      </p>
      {isAsking && (
        <Neither evaluation={evaluation} row={row} again={again} onLabel={onLabel} onClose={() => ask(false)} />
      )}
    </div>
  );
}

interface ChoiceProps {
  label: Label | null;
  word: string;
  at: string;
  isSending: boolean;
  give: (label: Label) => Promise<void>;
}

function Choice({ label, word, at, isSending, give }: ChoiceProps) {
  if (!label) return null;
  const says = Object.entries(labelLines(label)).map(([name, value]) => `${name} = ${textOf(value)}`);
  return (
    <button
      type="button"
      className="btn small"
      disabled={isSending}
      title={visible(says.join(", "))}
      onClick={() => void give(label)}
    >
      {word} <kbd>{at}</kbd>
    </button>
  );
}

/** What is expected if neither is right: a label as `walagent evaluations datasets label` takes it. */
function Neither({ evaluation, row, again, onLabel, onClose }: GiveLabelProps & { onClose: () => void }) {
  const [text, setText] = useState(() =>
    JSON.stringify(row.label ?? row.labels.candidate ?? row.labels.recorded ?? { values: {} }, null, 2),
  );
  const send = async () => {
    await labelCase(evaluation, row, text);
    toast(`Case ${row.number} is labelled, for later evaluations of ${row.dataset}.`);
    onLabel();
  };
  return (
    <FormDialog
      title={`What is expected of a run on case ${row.number}?`}
      action="Label the case"
      keep="Say nothing"
      isReady={isObject(text)}
      send={send}
      again={again}
      onClose={onClose}
      gone="Somebody has labelled it meanwhile"
    >
      <label className="field">
        Label
        <textarea className="prompt" rows={10} value={text} onChange={(event) => setText(event.target.value)} />
      </label>
      <p className="soft">
        JSON with one of these keys at least: <code>values</code>, arguments of calls by name; <code>tools</code>, names
        of the tools that act, in order; <code>result</code>, the text. A run is right if all of it is true.
      </p>
    </FormDialog>
  );
}

function isObject(text: string): boolean {
  try {
    const found: unknown = JSON.parse(text);
    return typeof found === "object" && found !== null && !Array.isArray(found);
  } catch {
    return false;
  }
}
