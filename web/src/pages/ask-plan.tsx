/** The plan of an answer: steps as boxes, what each needs as arrows. */
import dagre, { type EdgeLabel, type GraphLabel, type Point } from "@dagrejs/dagre";

import { isNarrow } from "../data/local";
import type { Answer } from "../data/questions";

const [HEIGHT, HEAD] = [42, 7];

/** A box: its size, and from the layout its center. */
type Box = Point & { width: number; height: number };

export default function Plan({ answer }: { answer: Answer }) {
  const graph = new dagre.graphlib.Graph<GraphLabel, Box, EdgeLabel>();
  const isDown = isNarrow();
  const width = isDown ? 150 : 168;
  graph.setGraph({ rankdir: isDown ? "TB" : "LR", nodesep: 16, ranksep: 34, marginx: 4, marginy: 4 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const step of answer.plan) graph.setNode(step.id, { x: 0, y: 0, width, height: HEIGHT });
  for (const step of answer.plan) for (const each of step.depends_on) graph.setEdge(each, step.id);
  dagre.layout(graph);
  /** From the side of a box to the side of another, through the points between them. */
  const arrow = (from: Point, points: readonly Point[], to: Point): [line: string, head: string] => {
    const start = isDown ? { x: from.x, y: from.y + HEIGHT / 2 } : { x: from.x + width / 2, y: from.y };
    const end = isDown ? { x: to.x, y: to.y - HEIGHT / 2 - HEAD } : { x: to.x - width / 2 - HEAD, y: to.y };
    let [line, at] = [`M${start.x} ${start.y}`, start];
    for (const next of points.length > 3 ? [...points.slice(1, -1), end] : [end]) {
      const [x, y] = [(at.x + next.x) / 2, (at.y + next.y) / 2];
      line += isDown
        ? `C${at.x} ${y} ${next.x} ${y} ${next.x} ${next.y}`
        : `C${x} ${at.y} ${x} ${next.y} ${next.x} ${next.y}`;
      at = next;
    }
    return [line, isDown ? `M${end.x - 4} ${end.y}h8l-4 ${HEAD}z` : `M${end.x} ${end.y - 4}v8l${HEAD}-4z`];
  };
  const size = graph.graph();
  const results = new Map(answer.steps.map((each) => [each.step, each]));
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="Plan">
      <svg
        className="plan"
        viewBox={`0 0 ${size.width} ${size.height}`}
        width={size.width}
        height={size.height}
        role="img"
        aria-label={answer.plan
          .map(
            (each) =>
              `${each.id}: ${each.description}${each.depends_on.length ? `, after ${each.depends_on.join(", ")}` : ""}`,
          )
          .join("; ")}
      >
        {graph.edges().map((edge) => {
          const [line, head] = arrow(graph.node(edge.v), graph.edge(edge).points ?? [], graph.node(edge.w));
          return (
            <g key={`${edge.v} ${edge.w}`}>
              <path d={line} />
              <path className="ar" d={head} />
            </g>
          );
        })}
        {answer.plan.map((step) => {
          const { x, y } = graph.node(step.id);
          const found = results.get(step.id);
          return (
            <g key={step.id} transform={`translate(${x - width / 2} ${y - HEIGHT / 2})`}>
              <title>{step.description}</title>
              <rect className={found && !found.error ? "ok" : ""} width={width} height={HEIGHT} />
              <text className="strong" x="10" y="17">
                {short(step.id, isDown ? 19 : 22)}
              </text>
              <text className="mono" x="10" y="32">
                {found
                  ? found.error
                    ? "failed"
                    : `${step.type.toLowerCase()}, ${found.rows.length} ${found.rows.length === 1 ? "row" : "rows"}`
                  : step.type.toLowerCase()}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

const short = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
