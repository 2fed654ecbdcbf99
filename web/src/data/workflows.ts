/** Workflows: graphs of nodes, and where their runs are. */
import type { GraphNode } from "../parts/graph";
import type { RunState } from "./runs";

export interface Workflow {
  name: string;
  version: number;
  description: string;
  updated_at: string;
  nodes: string;
  runs: string;
  active: string;
  waiting: string;
  failed: string;
  last_at: string | null;
}

export interface WorkflowNode {
  name: string;
  kind: "model" | "tool" | "router" | "function" | "human" | "parallel" | "subgraph";
  settings: Record<string, unknown>;
}

export interface WorkflowEdge {
  from: string;
  to: string;
  condition: string | null;
  label: string;
}

export interface WorkflowDetail {
  name: string;
  version: number;
  description: string;
  entry: string;
  exits: string[];
  max_steps: number;
  timeout_ms: number;
  run_as: string;
  made_by: string;
  made_at: string;
  nodes: WorkflowNode[];
  edges: WorkflowEdge[];
}

export interface WorkflowRun {
  id: string;
  state: RunState;
  version: string | null;
  created_at: string;
  finished_at: string | null;
  reason: string | null;
  /** The next node; null: none was reached, or it has ended. */
  node: string | null;
  /** The call that waits for a person. */
  approval: string | null;
}

export interface Checkpoint {
  number: number;
  node: string | null;
  came_from: string | null;
  state: Record<string, unknown>;
  depth: number;
  at: string;
}

export const END = "__end__";
const SHOWN = ["model", "agent", "tool", "function", "workflow", "type", "prompt", "output"];

/** What a node executes: its model, tool or function, and its prompt. */
export function doing({ kind, settings }: WorkflowNode): string {
  const said = SHOWN.flatMap((name) => (typeof settings[name] === "string" ? [settings[name]] : []));
  return said.join(", ") || (kind === "router" ? "its edges decide" : "");
}

/** Boxes of a graph: the entry first, with the end if an edge leads there; those that a run has passed are marked. */
export function boxes(of: WorkflowDetail, states: readonly Checkpoint[] = []): GraphNode[] {
  const last = states.at(-1);
  const passed = new Set(states.map((each) => each.came_from));
  const ended = last?.node === null;
  const nodes = of.nodes.map((node) => ({
    id: node.name,
    title: `${node.name}: ${node.kind} ${doing(node)}`.trim(),
    text: node.name === of.entry ? `${node.kind}, entry` : node.kind,
    className: last?.node === node.name ? "at" : passed.has(node.name) ? "ok" : "",
  }));
  return of.edges.some((edge) => edge.to === END)
    ? [...nodes, { id: END, title: "the end", text: "end", className: ended ? "ok" : "" }]
    : nodes;
}

/** The graph in words. */
export function inWords(of: WorkflowDetail): string {
  return of.nodes
    .map((node) => {
      const next = of.edges
        .filter((edge) => edge.from === node.name)
        .map((edge) => (edge.to === END ? "the end" : edge.to));
      return `${node.name}: ${node.kind}${next.length ? `, then ${next.join(" or ")}` : ""}`;
    })
    .join("; ");
}
