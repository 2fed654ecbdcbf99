/** Workflows: all of them, or the graph and the runs of one. */
import { Link, useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { number } from "../data/format";
import { useQueryOnce } from "../data/queries";
import type { Workflow } from "../data/workflows";
import { useTitle } from "../frame/title";
import { Name } from "../parts/name";
import { Problem } from "../parts/notice";
import { OwnOnly } from "../parts/own-only";
import { Empty, Panel, Skeleton } from "../parts/panel";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { OneWorkflow } from "./workflow";

export default function Workflows(): ReactNode {
  const { workflow } = useParams({ strict: false });
  return workflow ? <OneWorkflow key={workflow} name={workflow} /> : <All />;
}

function All() {
  useTitle("Workflows");
  const { rows, error, again } = useQueryOnce<Workflow>("workflows", {}, { every: 10_000 });
  return (
    <div className="stack">
      <div className="head">
        <h1>Workflows</h1>
        {rows && <span className="muted">{number(rows.length)}</span>}
      </div>
      <OwnOnly />
      {error && !rows ? (
        <Panel title="Workflows" flush>
          <Problem error={error} again={again} />
        </Panel>
      ) : rows === null ? (
        <Panel label="Workflows" flush busy>
          <Skeleton />
        </Panel>
      ) : rows.length === 0 ? (
        <Empty title="No workflow" command="walagent workflows create workflow.yaml">
          A workflow is a graph of models, tools, functions and people. Its runs are listed here, with where they are.
        </Empty>
      ) : (
        <Panel label="Workflows" flush foot="Counted are the newest 20,000 runs of all kinds.">
          <Table<Workflow>
            label="Workflows"
            rows={rows}
            rowKey={(row) => row.name}
            columns={[
              {
                title: "Workflow",
                className: "c0",
                cell: (row) => (
                  <span className="clip" title={[row.name, row.description].filter(Boolean).join("\n")}>
                    <Link to="/workflows/$workflow" params={{ workflow: row.name }}>
                      <Name text={row.name} className="strong" />
                    </Link>{" "}
                    <bdi className="muted">{row.description}</bdi>
                  </span>
                ),
              },
              { title: "Version", label: "Version", className: "num inline", cell: (row) => row.version },
              { title: "Nodes", label: "Nodes", className: "num inline", cell: (row) => number(row.nodes) },
              { title: "Runs", label: "Runs", className: "num inline", cell: (row) => number(row.runs) },
              { title: "Active", label: "Active", className: "num inline", cell: (row) => number(row.active) },
              {
                title: "Waits for a person",
                label: "Waits for a person",
                className: "num inline",
                cell: (row) => number(row.waiting),
              },
              { title: "Failed", label: "Failed", className: "num inline", cell: (row) => number(row.failed) },
              {
                title: "Last run",
                label: "Last run",
                className: "num inline nowrap",
                cell: (row) => <Time at={row.last_at} />,
              },
            ]}
          />
        </Panel>
      )}
    </div>
  );
}
