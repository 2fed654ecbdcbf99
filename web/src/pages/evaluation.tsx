/** One evaluation: what it came to in words and figures, then its cases; or beside another one. */
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import {
  candidateOf,
  dollars,
  type Evaluation,
  type EvaluationRow,
  seconds,
  sign,
  split,
  stateOf,
  titleOf,
} from "../data/evaluations";
import { number, percent } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { visible } from "../data/visible";
import { useTitle } from "../frame/title";
import { Notice, Problem } from "../parts/notice";
import { Panel, Skeleton } from "../parts/panel";
import { Payload } from "../parts/payload";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { Cases } from "./evaluation-cases";
import { WithAnother } from "./evaluation-compare";
import { Absent } from "./missing";

const EVERY = 5_000; // ms between two looks at one that runs
const IDS = /^[1-9]\d{0,17}$/;

export default function EvaluationPage(): ReactNode {
  const { evaluation } = useParams({ from: "/signed-in/evaluations/$evaluation" });
  const { with: other } = useSearch({ from: "/signed-in/evaluations/$evaluation" });
  useTitle(`Evaluation ${evaluation}`);
  const isNumber = IDS.test(evaluation);
  const [isRunning, setRunning] = useState(false);
  const { rows, error, again } = useQueryOnce<Evaluation>(
    "evaluation",
    { evaluation },
    { skip: !isNumber, ...(isRunning ? { every: EVERY } : {}) },
  );
  const row = rows?.find((each) => each.id === evaluation);
  if (row && isRunning !== (row.state === "running")) setRunning(!isRunning);
  if (!isNumber || rows?.length === 0)
    return (
      <Absent
        text={`Evaluation ${evaluation} does not exist, or you may not see it.`}
        to="/evaluations"
        action="All evaluations"
      />
    );
  if (!row)
    return error ? (
      <Panel title={`Evaluation ${evaluation}`} flush>
        <Problem error={error} again={again} />
      </Panel>
    ) : (
      <Panel label="Evaluation" flush busy>
        <Skeleton rows={8} />
      </Panel>
    );
  return (
    <div className="stack">
      <Head row={row} other={other} />
      {other ? (
        <WithAnother key={other} row={row} other={other} />
      ) : (
        <>
          <Verdict row={row} />
          <Both row={row} />
          <Cases key={row.id} row={row} />
        </>
      )}
    </div>
  );
}

function Head({ row, other }: { row: Evaluation; other: string | undefined }) {
  const compared = Number(row.agreeing) + Number(row.differing);
  return (
    <>
      <div className="head">
        <p className="crumb">
          <Link to="/evaluations" activeProps={{}}>
            Evaluations
          </Link>{" "}
          / {row.id}
        </p>
        <h1>{visible(titleOf(row))}</h1>
        <State {...stateOf(row)} />
        {row.shadow !== null && <span className="chip">shadow</span>}
        <span className="muted wrapped">
          {visible(row.model)}, {visible(candidateOf(row))}
        </span>
        <div className="actions">
          <Choose row={row} other={other} />
          {row.agent && (
            <Link className="btn" to="/agents/$agent" params={{ agent: row.agent }}>
              Agent
            </Link>
          )}
        </div>
      </div>
      <p className="soft">
        {row.shadow === null
          ? `${number(row.cases)} of ${number(row.planned)} cases`
          : `${number(row.cases)} cases of shadow version ${row.shadow}`}
        {row.dataset && ` of dataset ${visible(row.dataset)}`}
        {compared > 0 && `; ${number(row.agreeing)} agree, ${number(row.differing)} differ`}
        {Number(row.failing) > 0 && `; ${number(row.failing)} did not succeed`}. Begun <Time at={row.started_at} /> by{" "}
        {visible(row.made_by)}.
      </p>
      {row.state === "broken_off" && (
        <Notice tone="failed">
          <p>
            <b className="strong">Broken off:</b> {visible(row.error ?? "its process has ended")}. What is below was
            executed before.
          </p>
        </Notice>
      )}
    </>
  );
}

/** Another evaluation of the same attachment to compare with. */
function Choose({ row, other }: { row: Evaluation; other: string | undefined }) {
  const navigate = useNavigate();
  const { rows } = useQueryOnce<EvaluationRow>("evaluations", {
    attachment: row.attachment,
    before: "",
    limit: 50,
  });
  const others = (rows ?? []).filter((each) => each.id !== row.id && each.attachment === row.attachment);
  if (others.length === 0 && !other) return null;
  return (
    <label className="row">
      <span className="muted nowrap">Compare with</span>
      <select
        value={other ?? ""}
        onChange={(event) =>
          void navigate({
            to: "/evaluations/$evaluation",
            params: { evaluation: row.id },
            search: { with: event.target.value || undefined },
          })
        }
      >
        <option value="">none</option>
        {other && !others.some((each) => each.id === other) && <option value={other}>{other}</option>}
        {others.map((each) => (
          <option key={each.id} value={each.id}>
            {each.id}: {visible(each.model)}, {visible(candidateOf(each))}
          </option>
        ))}
      </select>
    </label>
  );
}

/** One sentence: better, worse, or not to tell; no winner before the end, and none without labels. */
function Verdict({ row }: { row: Evaluation }) {
  const isRunning = row.state === "running";
  if (isRunning && row.shadow === null)
    return (
      <Notice tone="info" live="status">
        <p>
          <b className="strong">It runs.</b> What it came to is said when all {number(row.planned)} cases are executed.
        </p>
      </Notice>
    );
  const unlabelled = Number(row.cases) - Number(row.labelled);
  const rest =
    unlabelled > 0
      ? `${number(unlabelled)} ${unlabelled === 1 ? "case has" : "cases have"} no label: that they agree does not say that they are right.`
      : "";
  if (Number(row.tested) === 0)
    return (
      <Notice tone="info" icon="scale">
        <p>
          <b className="strong">Which one is better cannot be told:</b>{" "}
          {Number(row.labelled) > 0
            ? `${number(row.are_right)} of ${number(row.labelled)} with a label are right, and of these no run is recorded.`
            : "no case has a label. People give them below, and by correcting or scoring runs."}
        </p>
        {Number(row.labelled) > 0 && rest && <p>{rest}</p>}
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
      {rest && <p>{rest}</p>}
    </Notice>
  );
}

interface Measure {
  name: string;
  recorded: ReactNode;
  candidate: ReactNode;
}

const part = (value: string, whole: string) =>
  Number(whole) ? `${number(value)}, ${percent(Number(value), Number(whole))}` : "–";

function Both({ row }: { row: Evaluation }) {
  const hasRecorded = Number(row.agreeing) + Number(row.differing) > 0;
  const measures: Measure[] = [
    ...(Number(row.tested) > 0
      ? [
          {
            name: `Right, of ${number(row.tested)} with a label`,
            recorded: part(row.first_right, row.tested),
            candidate: part(row.second_right, row.tested),
          },
        ]
      : []),
    ...(Number(row.labelled) > Number(row.tested)
      ? [
          {
            name: `Right, of all ${number(row.labelled)} with a label`,
            recorded: "–",
            candidate: part(row.are_right, row.labelled),
          },
        ]
      : []),
    {
      name: "Tokens",
      recorded: hasRecorded ? number(row.recorded_tokens) : "–",
      candidate: number(row.tokens),
    },
    {
      name: row.judge ? "Cost, with the judge" : "Cost",
      recorded: hasRecorded ? dollars(row.recorded_cost) : "–",
      candidate: dollars(row.cost),
    },
    {
      name: "Time of the model, median",
      recorded: seconds(row.recorded_median_seconds),
      candidate: seconds(row.median_seconds),
    },
  ];
  const undecided = Number(row.judged) - Number(row.judged_better) - Number(row.judged_worse);
  return (
    <Panel
      title="Both, side by side"
      flush
      foot={
        row.judge ? (
          <span className="soft">
            Judge {visible(row.judge)}: {number(row.judged_better)} better, {number(row.judged_worse)} worse,{" "}
            {number(undecided)} undecided of {number(row.judged)} that differ. Its verdicts are no labels.
          </span>
        ) : undefined
      }
    >
      <Table<Measure>
        label="Measures"
        className="cmp"
        rows={measures}
        rowKey={(each) => each.name}
        columns={[
          { title: "Measure", cell: (each) => each.name },
          { title: "Recorded", className: "num", cell: (each) => each.recorded },
          { title: "Candidate", className: "num", cell: (each) => each.candidate },
        ]}
      />
      {row.system_prompt && (
        <div className="body">
          <Payload title="System prompt of the candidate" text={row.system_prompt} name={`evaluation-${row.id}.txt`} />
        </div>
      )}
    </Panel>
  );
}
