/** One evaluation: what it came to in words and figures, then its cases; or beside another one. */
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import {
  candidateOf,
  dollars,
  type Evaluation,
  type EvaluationRow,
  interval,
  seconds,
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
import { Verdict } from "./evaluation-verdict";
import { Absent } from "./missing";

const EVERY = 5_000; // ms between two looks at a replay that runs
const SELDOM = 30_000; // at a shadow, which runs for days
const IDS = /^[1-9]\d{0,17}$/;

export default function EvaluationPage(): ReactNode {
  const { evaluation } = useParams({ from: "/signed-in/evaluations/$evaluation" });
  const { with: other } = useSearch({ from: "/signed-in/evaluations/$evaluation" });
  useTitle(`Evaluation ${evaluation}`);
  const isNumber = IDS.test(evaluation);
  const [every, setEvery] = useState(0);
  const { rows, error, again } = useQueryOnce<Evaluation>(
    "evaluation",
    { evaluation },
    { skip: !isNumber, ...(every ? { every } : {}) },
  );
  const row = rows?.find((each) => each.id === evaluation);
  const wanted = row?.state === "running" ? (row.shadow === null ? EVERY : SELDOM) : 0;
  if (row && every !== wanted) setEvery(wanted);
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
        {row.dataset && (
          <>
            {" of dataset "}
            <Link to="/evaluations" search={{ dataset: row.dataset }} activeProps={{}}>
              <bdi>{visible(row.dataset)}</bdi>
            </Link>
          </>
        )}
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

interface Measure {
  name: string;
  recorded: ReactNode;
  candidate: ReactNode;
}

/** How many of them, and the interval of their share: few labels tell little. */
function part(value: string, whole: string): ReactNode {
  if (!Number(whole)) return "–";
  const [least, most] = interval(Number(value), Number(whole));
  return (
    <>
      {number(value)}, {percent(Number(value), Number(whole))}{" "}
      <span className="muted" title="95 % interval (Wilson)">
        {least} to {most} %
      </span>
    </>
  );
}

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
            {number(undecided)} undecided of {number(row.judged)} that differ. Its verdicts are not labels.
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
