/** Evaluations: replays and shadows, newest first. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import {
  candidateOf,
  dollars,
  EVALUATION_FILTERS,
  type EvaluationFilter,
  type EvaluationRow,
  stateOf,
  titleOf,
} from "../data/evaluations";
import type { Suggestion } from "../data/filter";
import { number, shellWord } from "../data/format";
import { usePages } from "../data/pages";
import { useQueryOnce } from "../data/queries";
import { visible } from "../data/visible";
import { useTitle } from "../frame/title";
import { FilterBar } from "../parts/filterbar";
import { Icon } from "../parts/icon";
import { More } from "../parts/more";
import { Name } from "../parts/name";
import { NeedsRole } from "../parts/needs-role";
import { Problem } from "../parts/notice";
import { useSeesRuns } from "../parts/own-only";
import { Empty, Panel, Skeleton } from "../parts/panel";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";

const SUGGESTIONS: readonly Suggestion[] = [
  { name: "agent", hint: "the agent whose changes were replayed" },
  { name: "attachment", hint: "the attachment whose changes were replayed" },
  { name: "dataset", hint: "the dataset of the changes" },
];

export default function Evaluations(): ReactNode {
  useTitle("Evaluations");
  const filter: EvaluationFilter = useSearch({ from: "/signed-in/evaluations" });
  const navigate = useNavigate();
  const seesRuns = useSeesRuns();
  const [turn, setTurn] = useState(0);
  const tokens = EVALUATION_FILTERS.flatMap((name) => (filter[name] ? [{ name, value: filter[name] }] : []));
  return (
    <div className="stack">
      <div className="head">
        <h1>Evaluations</h1>
        <span className="muted">candidates on recorded changes, of which nothing was kept</span>
      </div>
      {seesRuns ? (
        <>
          <FilterBar
            label="Filter evaluations"
            placeholder={tokens.length ? "" : "agent:triage  dataset:golden  …"}
            tokens={tokens}
            text=""
            suggestions={SUGGESTIONS}
            onChange={(next, text) =>
              void navigate({
                to: "/evaluations",
                search: {
                  ...Object.fromEntries(next.map((each) => [each.name, each.value])),
                  ...(text ? { attachment: text } : {}),
                },
                replace: true,
              })
            }
          />
          <List key={`${turn} ${JSON.stringify(filter)}`} filter={filter} again={() => setTurn(turn + 1)} />
        </>
      ) : (
        <NeedsRole lacks="viewer">
          <b className="strong">Evaluations are shown to those who see runs.</b> That needs the role
        </NeedsRole>
      )}
    </div>
  );
}

const EVERY = 10_000; // ms between two looks at what running ones came to
const SELDOM = 30_000; // for new ones

function List({ filter, again }: { filter: EvaluationFilter; again: () => void }) {
  const params = Object.fromEntries(EVALUATION_FILTERS.map((name) => [name, filter[name] ?? ""]));
  const pages = usePages<EvaluationRow>("evaluations", params, { limit: 25, before: (row) => row.id });
  const newest = useQueryOnce<EvaluationRow>(
    "evaluations",
    { ...params, before: "", limit: 25 },
    { every: pages.rows.some((row) => row.state === "running") ? EVERY : SELDOM, skip: pages.isLoading },
  ).rows;
  const isFiltered = Object.values(filter).some(Boolean);
  if (pages.isLoading)
    return (
      <Panel label="Evaluations" flush busy>
        <Skeleton rows={8} />
      </Panel>
    );
  if (pages.error && pages.rows.length === 0)
    return (
      <Panel title="Evaluations" flush>
        <Problem error={pages.error} again={pages.more} />
      </Panel>
    );
  const isNew = newest?.[0] !== undefined && newest[0].id !== pages.rows[0]?.id;
  const fresh = isNew && (
    <button type="button" className="newrows" onClick={again}>
      <Icon name="up" small />
      Show what is new
    </button>
  );
  if (pages.rows.length === 0)
    return (
      <>
        {fresh}
        <Nothing filter={filter} isFiltered={isFiltered} />
      </>
    );
  // Those that run are as they are now; the order stays.
  const latest = new Map((newest ?? []).map((row) => [row.id, row]));
  return (
    <>
      {fresh}
      <Panel label="Evaluations" flush>
        <Table<EvaluationRow>
          label="Evaluations, newest first"
          className="cards fixed evs"
          rows={pages.rows.map((row) => latest.get(row.id) ?? row)}
          rowKey={(row) => row.id}
          columns={COLUMNS}
        />
        <More of={pages} />
      </Panel>
    </>
  );
}

function Nothing({ filter, isFiltered }: { filter: EvaluationFilter; isFiltered: boolean }) {
  if (isFiltered)
    return (
      <Empty
        title="No evaluation matches"
        command={filter.attachment ? `walagent replay ${shellWord(filter.attachment)}` : undefined}
        action={
          <Link className="btn small" to="/evaluations" search={{}}>
            Clear the filter
          </Link>
        }
      >
        All that are kept were searched.
      </Empty>
    );
  return (
    <Empty title="Nothing was evaluated yet" command="walagent replay ATTACHMENT --model NAME">
      A replay executes recorded changes again with another version of an agent, rolls everything back, and compares. A
      shadow does so with changes as they come.
    </Empty>
  );
}

/** A part of a whole, or that there is none. */
const share = (part: string, whole: number) =>
  whole ? `${number(part)} of ${number(whole)}` : <span className="muted">–</span>;

const COLUMNS = [
  {
    title: "Evaluation",
    className: "c0",
    cell: (row: EvaluationRow) => (
      <Link className="clip" to="/evaluations/$evaluation" params={{ evaluation: row.id }}>
        <span className="muted">{row.id}</span> <b className="strong">{visible(titleOf(row))}</b>
      </Link>
    ),
  },
  {
    title: "Candidate",
    className: "clip",
    cell: (row: EvaluationRow) => (
      <span className="row">
        {row.shadow !== null && <span className="chip">shadow</span>}
        <span className="clip" title={visible(`${row.model}: ${candidateOf(row)}`)}>
          {visible(row.model)} <span className="muted">{visible(candidateOf(row))}</span>
        </span>
      </span>
    ),
  },
  { title: "State", className: "inline nowrap", cell: (row: EvaluationRow) => <State {...stateOf(row)} bare /> },
  {
    title: "Cases",
    label: "Cases",
    className: "num inline",
    cell: (row: EvaluationRow) =>
      row.shadow === null && row.state !== "finished" ? share(row.cases, row.planned) : number(row.cases),
  },
  {
    title: "Agree",
    label: "Agree",
    className: "num inline",
    cell: (row: EvaluationRow) => share(row.agreeing, Number(row.agreeing) + Number(row.differing)),
  },
  {
    title: "Right",
    label: "Right",
    className: "num inline",
    cell: (row: EvaluationRow) => share(row.are_right, Number(row.labelled)),
  },
  {
    title: "Dataset",
    label: "Dataset",
    className: "clip hide-m",
    cell: (row: EvaluationRow) => <Name text={visible(row.dataset ?? "")} className="muted" />,
  },
  { title: "Cost", label: "Cost", className: "num inline", cell: (row: EvaluationRow) => dollars(row.cost) },
  {
    title: "Age",
    className: "num inline muted nowrap",
    cell: (row: EvaluationRow) => <Time at={row.started_at} short />,
  },
];
