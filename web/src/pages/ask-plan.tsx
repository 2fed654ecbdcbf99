/** The plan of an answer: steps as boxes, what each needs as arrows. */
import dagre from "@dagrejs/dagre";

import type { Answer } from "../data/questions";

const [WIDTH, HEIGHT] = [168, 42];

export default function Plan({ answer }: { answer: Answer }) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 16, ranksep: 34, marginx: 4, marginy: 4 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const step of answer.plan) graph.setNode(step.id, { width: WIDTH, height: HEIGHT });
  for (const step of answer.plan) for (const each of step.depends_on) graph.setEdge(each, step.id);
  dagre.layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  const results = new Map(answer.steps.map((each) => [each.step, each]));
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="Plan">
      <svg className="plan" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={answer.plan.map((each) => `${each.id}: ${each.description}${each.depends_on.length ? `, after ${each.depends_on.join(", ")}` : ""}`).join("; ")}>
        {graph.edges().map((edge) => {
          const points = graph.edge(edge).points ?? [];
          const end = points.at(-1);
          return (
            <g key={`${edge.v} ${edge.w}`}>
              <path d={points.map((at: { x: number; y: number }, n: number) => `${n ? "L" : "M"}${at.x} ${at.y}`).join("")} />
              {end && <path className="ar" d={`m${end.x - 6} ${end.y - 4} 7 4-7 4z`} />}
            </g>
          );
        })}
        {answer.plan.map((step) => {
          const { x, y } = graph.node(step.id);
          const found = results.get(step.id);
          return (
            <g key={step.id} transform={`translate(${x - WIDTH / 2} ${y - HEIGHT / 2})`}>
              <title>{step.description}</title>
              <rect className={found && !found.error ? "ok" : ""} width={WIDTH} height={HEIGHT} />
              <text className="strong" x="10" y="17">
                {short(step.id)}
              </text>
              <text className="mono" x="10" y="32">
                {found ? (found.error ? "failed" : `${step.type.toLowerCase()}, ${found.rows.length} ${found.rows.length === 1 ? "row" : "rows"}`) : step.type.toLowerCase()}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

const short = (text: string) => (text.length > 22 ? `${text.slice(0, 21)}…` : text);
