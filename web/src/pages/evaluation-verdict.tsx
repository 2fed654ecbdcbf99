/** Which one is better, in a sentence. */
import { Link } from "@tanstack/react-router";

import { type Evaluation, seconds, sign, split } from "../data/evaluations";
import { number } from "../data/format";
import { Notice } from "../parts/notice";

/** One sentence: better, worse, or not to tell; no winner before the end, and none without labels. */
export function Verdict({ row }: { row: Evaluation }) {
  const isRunning = row.state === "running";
  if (isRunning && row.shadow === null)
    return (
      <Notice tone="info" live="status">
        <p>
          <b className="strong">It runs.</b> What it came to is said when all {number(row.planned)} cases are executed.
        </p>
      </Notice>
    );
  if (row.attachment === null)
    return (
      <Notice tone="info" icon="scale">
        <p>
          <b className="strong">
            {number(row.are_right)} of {number(row.labelled)} answers have the rows of the saved statement.
          </b>{" "}
          Compare with another evaluation of questions to see which model is better.
        </p>
      </Notice>
    );
  const unlabelled = Number(row.cases) - Number(row.labelled);
  const rest = unlabelled > 0 && (
    <p>
      <Link
        to="/evaluations/$evaluation"
        params={{ evaluation: row.id }}
        search={{ only: "unlabelled" }}
        activeProps={{}}
        resetScroll={false}
        replace
      >
        {number(unlabelled)} {unlabelled === 1 ? "case has" : "cases have"} no label
      </Link>
      : that they agree does not say that they are right.
    </p>
  );
  if (Number(row.tested) === 0)
    return (
      <Notice tone="info" icon="scale">
        <p>
          <b className="strong">Which one is better cannot be told:</b>{" "}
          {Number(row.labelled) > 0
            ? `${number(row.are_right)} of ${number(row.labelled)} with a label are right, and of these no run is recorded.`
            : "no case has a label. People give them below, and by correcting or scoring runs."}
        </p>
        {Number(row.labelled) > 0 && rest}
      </Notice>
    );
  const found = sign(row);
  const counts = `${number(row.second_right)} of ${number(row.tested)} right against ${number(row.first_right)} of the recorded runs`;
  return (
    <Notice tone={found > 0 ? "ok" : found < 0 ? "failed" : "info"} icon="scale">
      <p>
        <b className="strong">
          {found > 0
            ? "The candidate is better where the answer is known:"
            : found < 0
              ? "The candidate is worse where the answer is known:"
              : "Too few cases tell which one is better:"}
        </b>{" "}
        {counts}{" "}
        <span title="McNemar's exact test: the probability of a split at least as uneven, if neither is better">
          ({split(row)})
        </span>
        .
      </p>
      {found > 0 && price(row) && <p>{price(row)}</p>}
      {rest}
    </Notice>
  );
}

/** What is worse of a candidate that is right more often. */
function price({ recorded_median_seconds: was, median_seconds: now }: Evaluation): string {
  return was !== null && now !== null && now > was
    ? `Its model takes longer: ${seconds(now)} instead of ${seconds(was)} in the median.`
    : "";
}
