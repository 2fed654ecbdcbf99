/** Two evaluations on the cases that both have: how often each candidate is right, and where they differ. */
import { Link } from "@tanstack/react-router";

import {
  candidateOf,
  type Compared,
  dollars,
  type Evaluation,
  type PairRow,
  seconds,
  sign,
  split,
} from "../data/evaluations";
import { number } from "../data/format";
import { usePages } from "../data/pages";
import { useQueryOnce } from "../data/queries";
import { visible } from "../data/visible";
import { More } from "../parts/more";
import { Notice, Problem } from "../parts/notice";
import { EmptyBody, Panel, Skeleton } from "../parts/panel";
import { Table } from "../parts/table";
import { Did, RowName } from "./evaluation-cases";
import { Absent } from "./missing";

const IDS = /^[1-9]\d{0,17}$/;

export function WithAnother({ row, other }: { row: Evaluation; other: string }) {
  const isOne = IDS.test(other) && other !== row.id;
  const given = { first: row.id, second: other };
  const second = useQueryOnce<Evaluation>("evaluation", { evaluation: other }, { skip: !isOne });
  const found = useQueryOnce<Compared>("evaluations_compared", given, { skip: !isOne });
  const [compared] = found.rows ?? [];
  const [against] = second.rows ?? [];
  const error = second.error ?? found.error;
  if (!isOne || second.rows?.length === 0)
    return (
      <Absent
        text={
          other === row.id
            ? `Evaluation ${row.id} is compared with another one, not with itself.`
            : `Evaluation ${other} does not exist, or you may not see it.`
        }
        to="/evaluations"
        action="All evaluations"
      />
    );
  if (!compared || !against)
    return (
      <Panel label="Compared" flush busy={!error}>
        {error ? <Problem error={error} again={found.again} /> : <Skeleton />}
      </Panel>
    );
  return (
    <>
      <Sentence compared={compared} first={row.id} second={other} />
      <Panel title="Both, side by side" flush>
        <Table<Evaluation>
          label="Measures of all their cases"
          className="cards"
          rows={[row, against]}
          rowKey={(each) => each.id}
          columns={[
            {
              title: "Evaluation",
              cell: (each) => (
                <Link to="/evaluations/$evaluation" params={{ evaluation: each.id }} search={{}} activeProps={{}}>
                  Evaluation {each.id}
                </Link>
              ),
            },
            {
              title: "Candidate",
              cell: (each) => (
                <span className="wrapped">
                  {visible(each.model)}, {visible(candidateOf(each))}
                </span>
              ),
            },
            { title: "Cases", label: "Cases", className: "num inline", cell: (each) => number(each.cases) },
            { title: "Tokens", label: "Tokens", className: "num inline", cell: (each) => number(each.tokens) },
            { title: "Cost", label: "Cost", className: "num inline", cell: (each) => dollars(each.cost) },
            {
              title: "Model, median",
              label: "Model, median",
              className: "num inline",
              cell: (each) => seconds(each.median_seconds),
            },
          ]}
        />
      </Panel>
      <Pairs first={row.id} second={other} hasCommon={Number(compared.cases) > 0} />
    </>
  );
}

function Sentence({ compared, first, second }: { compared: Compared; first: string; second: string }) {
  const cases = Number(compared.cases);
  const found = sign(compared);
  const others = [
    [first, Number(compared.first_cases) - cases],
    [second, Number(compared.second_cases) - cases],
  ].filter(([, count]) => Number(count) > 0);
  const rest = others.map(([id, count]) => `${number(count)} of evaluation ${id}`).join(" and ");
  return (
    <Notice tone={found === 0 ? "info" : "ok"} icon="scale">
      <p>
        {cases === 0 ? (
          <b className="strong">They have no case in common. Replay the same dataset, or the same runs.</b>
        ) : (
          <>
            <b className="strong">
              {number(cases)} {cases === 1 ? "case" : "cases"} in common: {number(compared.agreeing)} agree,{" "}
              {number(cases - Number(compared.agreeing))} differ.
            </b>{" "}
            {Number(compared.tested) === 0 ? (
              "None has the same label in both, so which one is better cannot be told."
            ) : (
              <>
                {found === 0
                  ? "Too few cases tell which one is better: "
                  : `Evaluation ${found > 0 ? second : first} is better where the answer is known: `}
                {number(compared.first_right)} and {number(compared.second_right)} of {number(compared.tested)} right.{" "}
                {second} against {first}: {split(compared)}.
              </>
            )}
          </>
        )}
      </p>
      {rest && <p>Other cases, not compared: {rest}.</p>}
    </Notice>
  );
}

function Pairs({ first, second, hasCommon }: { first: string; second: string; hasCommon: boolean }) {
  const pages = usePages<PairRow>(
    "evaluation_pairs",
    { first, second },
    { limit: 50, before: (row) => String(row.first_number) },
  );
  return (
    <Panel title="Cases that differ" flush busy={pages.isLoading}>
      {pages.isLoading ? (
        <Skeleton />
      ) : pages.error && pages.rows.length === 0 ? (
        <Problem error={pages.error} again={pages.more} />
      ) : pages.rows.length === 0 ? (
        <EmptyBody title={hasCommon ? "They differ in no case" : "No case in common"}>
          {hasCommon ? "All that both have were compared." : "Cases are compared that are of the same run or row."}
        </EmptyBody>
      ) : (
        <>
          <Table<PairRow>
            label="Cases that differ"
            className="cards fixed pairs"
            rows={pages.rows}
            rowKey={(row) => String(row.first_number)}
            columns={[
              { title: "Row", className: "clip", cell: (row) => <RowName row={row} /> },
              {
                title: `Evaluation ${first}`,
                className: "clip",
                cell: (row) => <Side id={first} of={row.first_number} text={row.first} right={row.first_right} />,
              },
              {
                title: `Evaluation ${second}`,
                className: "clip",
                cell: (row) => <Side id={second} of={row.second_number} text={row.second} right={row.second_right} />,
              },
            ]}
          />
          <More of={pages} />
        </>
      )}
    </Panel>
  );
}

function Side({ id, of, text, right }: { id: string; of: number; text: string; right: boolean | null }) {
  return (
    <span className="row">
      <Link
        className="nowrap"
        to="/evaluations/$evaluation"
        params={{ evaluation: id }}
        search={{ open: String(of) }}
        activeProps={{}}
      >
        case {number(of)}
      </Link>
      <Did name={`evaluation ${id}`} text={text} right={right} />
      <span className="muted nowrap">{right === null ? "" : right ? "right" : "wrong"}</span>
    </span>
  );
}
