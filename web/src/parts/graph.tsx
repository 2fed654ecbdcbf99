/** A directed graph: boxes with two lines, and arrows. */
import dagre, { type EdgeLabel, type GraphLabel, type Point } from "@dagrejs/dagre";

import { isNarrow } from "../data/local";

const [HEIGHT, HEAD] = [42, 7];

/** A box: its size, and from the layout its center. */
type Box = Point & { width: number; height: number };

export interface GraphNode {
  id: string;
  /** The second line. */
  text: string;
  title: string;
  className?: string;
}

interface GraphProps {
  label: string;
  /** The graph in words. */
  words: string;
  nodes: readonly GraphNode[];
  edges: readonly { from: string; to: string }[];
}

export function Graph({ label, words, nodes, edges }: GraphProps) {
  const graph = new dagre.graphlib.Graph<GraphLabel, Box, EdgeLabel>();
  const isDown = isNarrow();
  const width = isDown ? 150 : 168;
  graph.setGraph({ rankdir: isDown ? "TB" : "LR", nodesep: 16, ranksep: 34, marginx: 4, marginy: 4 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node.id, { x: 0, y: 0, width, height: HEIGHT });
  for (const { from, to } of edges) graph.setEdge(from, to);
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
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label={label}>
      <svg
        className="plan"
        viewBox={`0 0 ${size.width} ${size.height}`}
        width={size.width}
        height={size.height}
        role="img"
        aria-label={words}
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
        {nodes.map((node) => {
          const { x, y } = graph.node(node.id);
          return (
            <g key={node.id} transform={`translate(${x - width / 2} ${y - HEIGHT / 2})`}>
              <title>{node.title}</title>
              <rect className={node.className ?? ""} width={width} height={HEIGHT} />
              <text className="strong" x="10" y="17">
                {short(node.id, isDown ? 19 : 22)}
              </text>
              <text className="mono" x="10" y="32">
                {short(node.text, isDown ? 22 : 25)}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

const short = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
