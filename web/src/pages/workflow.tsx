/** One workflow: its graph, nodes and runs; of a run that is chosen, the checkpoints. */
import { Link, useSearch } from "@tanstack/react-router";

import { duration, number } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { badge } from "../data/runs";
import { visible } from "../data/visible";
import {
  boxes,
  type Checkpoint,
  doing,
  inWords,
  type WorkflowDetail,
  type WorkflowNode,
  type WorkflowRun,
} from "../data/workflows";
import { useTitle } from "../frame/title";
import { Graph } from "../parts/graph";
import { Problem } from "../parts/notice";
import { OwnOnly } from "../parts/own-only";
import { Empty, EmptyBody, Panel, Skeleton } from "../parts/panel";
import { Payload } from "../parts/payload";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";

export function OneWorkflow({ name }: { name: string }) {
  useTitle(name);
  const { run } = useSearch({ strict: false });
  const found = useQueryOnce<WorkflowDetail>("workflow", { name }, { every: 30_000 });
  const states = useQueryOnce<Checkpoint>("workflow_state", { run }, { every: 5_000, skip: !run });
  const row = found.rows?.[0];
  const isChosen = run !== undefined && states.rows !== null;
  return (
    <div className="stack">
      <div className="head">
        <p className="crumb">
          <Link to="/workflows">Workflows</Link>
        </p>
        <h1>{visible(name)}</h1>
        {row && (
          <span className="muted">
            v{row.version}, made by {row.made_by} <Time at={row.made_at} />, runs as {row.run_as}
          </span>
        )}
      </div>
      {found.error && !row ? (
        <Panel title="Workflow" flush>
          <Problem error={found.error} again={found.again} />
        </Panel>
      ) : found.rows === null ? (
        <Panel label="Workflow" flush busy>
          <Skeleton />
        </Panel>
      ) : !row ? (
        <Empty title="This workflow does not exist.">It was dropped, or is one of another tenant.</Empty>
      ) : (
        <>
          {row.description && <p className="soft">{visible(row.description)}</p>}
          <Panel
            title={isChosen ? `Run ${run}` : "Graph"}
            aside={
              <span className="muted">
                at most {number(row.max_steps)} nodes and {duration(row.timeout_ms)}
              </span>
            }
            end={
              run && (
                <Link to="/workflows/$workflow" params={{ workflow: name }}>
                  Show no run
                </Link>
              )
            }
          >
            <Graph
              label="Graph"
              words={inWords(row)}
              nodes={boxes(row, isChosen ? (states.rows ?? []) : [])}
              edges={row.edges}
            />
          </Panel>
          {run && <States run={run} of={states} />}
          <OwnOnly />
          <Runs name={name} chosen={run} />
          <Nodes of={row} />
        </>
      )}
    </div>
  );
}

function States({ run, of }: { run: string; of: ReturnType<typeof useQueryOnce<Checkpoint>> }) {
  return (
    <Panel
      title="Checkpoints"
      aside={
        <Link to="/runs/$run" params={{ run }}>
          all steps of run {run}
        </Link>
      }
    >
      {of.error && !of.rows ? (
        <Problem error={of.error} again={of.again} />
      ) : of.rows === null ? (
        <Skeleton />
      ) : of.rows.length === 0 ? (
        <p className="muted">No worker has executed a node, or the steps are not shown to you.</p>
      ) : (
        <div className="stack tight">
          {of.rows.map((each) => (
            <Payload
              key={each.number}
              title={
                <>
                  {each.number}. {each.came_from ? `after ${each.came_from}` : "start"}
                  {each.node ? `, next ${each.node}` : ", the end"}
                  {each.depth > 0 && `, in a subgraph`}
                </>
              }
              preview={JSON.stringify(each.state)}
              text={JSON.stringify(each.state, null, 2)}
              name={`run-${run}-state-${each.number}.json`}
            />
          ))}
        </div>
      )}
    </Panel>
  );
}

function Runs({ name, chosen }: { name: string; chosen: string | undefined }) {
  const { rows, error, again } = useQueryOnce<WorkflowRun>("workflow_runs", { name }, { every: 5_000 });
  return (
    <Panel title="Runs" aside={rows && <span className="muted">the latest {number(rows.length)}</span>} flush>
      {error && !rows ? (
        <Problem error={error} again={again} />
      ) : rows === null ? (
        <Skeleton />
      ) : rows.length === 0 ? (
        <EmptyBody title="No run" command={`select agent.start_workflow('${name.replaceAll("'", "''")}', '{}');`}>
          None of the newest 20,000 runs is of this workflow.
        </EmptyBody>
      ) : (
        <Table<WorkflowRun>
          label="Runs"
          rows={rows}
          rowKey={(row) => row.id}
          columns={[
            { title: "State", className: "inline nowrap", cell: (row) => <State state={badge(row.state)} /> },
            {
              title: "Run",
              label: "Run",
              className: "num inline",
              cell: (row) => (
                <Link to="/runs/$run" params={{ run: row.id }}>
                  {row.id}
                </Link>
              ),
            },
            { title: "Version", label: "Version", className: "num inline hide-s", cell: (row) => row.version },
            { title: "Where", className: "c0", cell: (row) => <Where row={row} /> },
            {
              title: "Started",
              label: "Started",
              className: "num inline nowrap",
              cell: (row) => <Time at={row.created_at} />,
            },
            {
              title: <span className="vh">Checkpoints</span>,
              className: "num inline nowrap",
              cell: (row) => (
                <Link
                  to="/workflows/$workflow"
                  params={{ workflow: name }}
                  search={{ run: row.id }}
                  aria-current={chosen === row.id || undefined}
                  activeProps={{}}
                  resetScroll
                >
                  Checkpoints
                </Link>
              ),
            },
          ]}
        />
      )}
    </Panel>
  );
}

function Where({ row }: { row: WorkflowRun }) {
  const text = row.reason ?? (row.finished_at ? "the end" : row.node ? `at ${row.node}` : "not begun");
  return (
    <span className="row">
      <span className="clip" title={text}>
        {visible(text)}
      </span>
      {row.approval && (
        <Link className="btn small" to="/approvals/$approval" params={{ approval: row.approval }}>
          Decide
        </Link>
      )}
    </span>
  );
}

function Nodes({ of }: { of: WorkflowDetail }) {
  return (
    <Panel title="Nodes" flush>
      <Table<WorkflowNode>
        label="Nodes"
        rows={of.nodes}
        rowKey={(node) => node.name}
        columns={[
          { title: "Node", className: "strong inline", cell: (node) => node.name },
          { title: "Kind", className: "inline", cell: (node) => <span className="chip">{node.kind}</span> },
          {
            title: "Executes",
            className: "c0",
            cell: (node) => (
              <span className="clip" title={doing(node)}>
                {visible(doing(node))}
              </span>
            ),
          },
          {
            title: "Next",
            className: "wrapped next",
            cell: (node) =>
              of.edges
                .filter((edge) => edge.from === node.name)
                .map((edge, i) => (
                  <span className="block" key={i}>
                    {edge.to === "__end__" ? "the end" : edge.to}
                    {edge.label && <span className="muted"> {edge.label}</span>}
                    {edge.condition && (
                      <>
                        {" if "}
                        <code>{edge.condition}</code>
                      </>
                    )}
                  </span>
                )),
          },
        ]}
      />
    </Panel>
  );
}
