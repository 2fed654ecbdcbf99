import { expect, test } from "vitest";

import { boxes, type Checkpoint, doing, inWords, type WorkflowDetail } from "../src/data/workflows";

const OF: WorkflowDetail = {
  name: "triage",
  version: 2,
  description: "",
  entry: "classify",
  exits: [],
  max_steps: 100,
  timeout_ms: 1000,
  run_as: "app",
  made_by: "ann",
  made_at: "2026-11-24T10:00:00Z",
  nodes: [
    { name: "classify", kind: "model", settings: { model: "sonnet", prompt: "Is it urgent?", format: "json" } },
    { name: "route", kind: "router", settings: {} },
    { name: "ask", kind: "human", settings: { type: "approval", expires: 5 } },
  ],
  edges: [
    { from: "classify", to: "route", condition: null, label: "" },
    { from: "route", to: "ask", condition: "true", label: "urgent" },
    { from: "route", to: "__end__", condition: null, label: "" },
  ],
};
const state = (node: string | null, came_from: string | null): Checkpoint => ({
  number: 0,
  node,
  came_from,
  state: {},
  depth: 0,
  at: "2026-11-24T10:00:00Z",
});

test("a node says what it executes", () => {
  expect(OF.nodes.map(doing)).toEqual(["sonnet, Is it urgent?", "its edges decide", "approval"]);
});

test("the graph has an end where an edge leads to it, and marks where a run is and was", () => {
  expect(boxes(OF).map((each) => [each.id, each.text])).toEqual([
    ["classify", "model, entry"],
    ["route", "router"],
    ["ask", "human"],
    ["__end__", "end"],
  ]);
  const states = [state("classify", null), state("route", "classify"), state("ask", "route")];
  expect(boxes(OF, states).map((each) => each.className)).toEqual(["ok", "ok", "at", ""]);
  expect(boxes(OF, [...states, state(null, "ask")]).map((each) => each.className)).toEqual(["ok", "ok", "ok", "ok"]);
  expect(boxes({ ...OF, edges: [] })).toHaveLength(3);
});

test("the graph is said in words", () => {
  expect(inWords(OF)).toBe("classify: model, then route; route: router, then ask or the end; ask: human");
});
