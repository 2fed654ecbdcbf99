/** The form that attaches an agent to a table. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type SubmitEvent, useRef, useState } from "react";

import { tableName } from "../data/format";
import type { Model } from "../data/agents";
import { mutate } from "../data/mutate";
import { Refused } from "../data/request";
import { Panel } from "../parts/panel";
import { toast } from "../parts/toast";
import { type Errors, fieldOf, fieldsOf } from "./attach-fields";

const OPS = ["insert", "update", "delete"];

export interface Options {
  login: string;
  roles: string[];
  tools: string[];
}

export interface TableRow {
  relation: string;
  columns: string[];
}

export interface AgentRow {
  agent: string;
  model: string;
  refusal: string | null;
}

const list = (text: string) =>
  text
    .split(/[\s,]+/)
    .map((each) => each.trim())
    .filter(Boolean);

interface FormProps {
  tables: readonly TableRow[];
  options: Options;
  models: readonly Model[];
  agents: readonly AgentRow[];
}

export function Form({ tables, options, models, agents }: FormProps) {
  const wanted = useSearch({ from: "/signed-in/attach" }).table;
  const navigate = useNavigate();
  const form = useRef<HTMLFormElement>(null);
  const [relation, setRelation] = useState(
    tables.find((each) => each.relation === wanted)?.relation ?? tables[0]?.relation ?? "",
  );
  const [agent, setAgent] = useState("");
  const [name, setName] = useState("");
  const [ops, setOps] = useState<readonly string[]>(["insert"]);
  const [condition, setCondition] = useState("");
  const [columns, setColumns] = useState<readonly string[]>([]);
  const [writes, setWrites] = useState<readonly string[]>([]);
  const [model, setModel] = useState(agents[0]?.model ?? models[0]?.name ?? "");
  const [prompt, setPrompt] = useState("");
  const [tools, setTools] = useState("");
  const [bind, setBind] = useState("");
  const [approve, setApprove] = useState("");
  const [runAs, setRunAs] = useState(options.roles[0] ?? options.login);
  const [backfill, setBackfill] = useState(false);
  const [errors, setErrors] = useState<Errors>({});
  const [isSending, setSending] = useState(false);
  const table = tables.find((each) => each.relation === relation);
  const isNew = agent === "";
  const mine = [...new Set(agents.filter((each) => each.refusal === null).map((each) => each.agent))];

  const fail = (found: Errors) => {
    setErrors(found);
    const [first] = Object.keys(found);
    requestAnimationFrame(() => form.current?.querySelector<HTMLElement>(`[data-field="${first}"]`)?.focus());
  };
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    const pairs = list(bind).map((each) => each.split("=") as [string, string | undefined]);
    const missing: Errors = {};
    if (!name.trim()) missing.name = "A name is needed.";
    else if (isNew && agents.some((each) => each.agent === name.trim()))
      missing.name = `Agent ${name.trim()} exists. Choose it above, or take another name.`;
    if (!ops.length) missing.ops = "At least one event is needed.";
    if (pairs.some(([left, right]) => !left || !right)) missing.bind = "Expected argument=column.";
    if (Object.keys(missing).length) return fail(missing);
    setSending(true);
    setErrors({});
    const values = {
      name: name.trim(),
      target: relation,
      ops,
      condition: condition.trim(),
      columns: columns.length ? columns : "",
      writes,
      bind: Object.fromEntries(pairs),
      approve: list(approve),
      run_as: runAs,
      backfill,
    };
    try {
      if (isNew) {
        const called = [...new Set([...(writes.length ? ["update_row"] : []), ...list(tools)])];
        await mutate("attach", { ...values, model, system_prompt: prompt, tools: called });
      } else await mutate("attach_agent", { ...values, agent });
      toast(
        <>
          Attached <b className="strong">{name.trim()}</b> to {relation}. Changes that commit from now on start its
          runs.
        </>,
      );
      await navigate({ to: "/agents/$agent", params: { agent: isNew ? name.trim() : agent } });
    } catch (error) {
      setSending(false);
      if (!(error instanceof Refused)) throw error;
      const field = fieldOf(error, isNew);
      const text =
        error.status === 404 && isNew
          ? `Agent ${name.trim()} exists already.`
          : [error.message, error.hint].filter(Boolean).join(". ");
      fail({ [field]: text });
    }
  };
  const { field, props, input, boxes } = fieldsOf(errors);
  return (
    <form ref={form} className="stack" onSubmit={(event) => void send(event)} noValidate>
      <div className="grid-eq break-m">
        <Panel title="When">
          <div className="stack">
            {field(
              "table",
              "Table",
              <select
                {...props("table")}
                value={relation}
                onChange={(event) => {
                  setRelation(event.target.value);
                  setColumns([]);
                  setWrites([]);
                }}
              >
                {tables.map((each) => (
                  <option key={each.relation}>{each.relation}</option>
                ))}
              </select>,
              "those that your login can read",
            )}
            {field("ops", "Events", boxes("ops", OPS, ops, setOps), "each change of these starts a run")}
            {field(
              "condition",
              "Condition",
              <textarea
                {...props("condition")}
                className="prompt"
                rows={2}
                value={condition}
                placeholder="new.amount > 500"
                spellCheck={false}
                onChange={(event) => setCondition(event.target.value)}
              />,
              "a boolean SQL expression over new and old; empty: every change",
            )}
            {field(
              "columns",
              "Reads columns",
              boxes("columns", table?.columns ?? [], columns, setColumns),
              "what the agent is shown, and whose updates count; none chosen: all",
            )}
            {field(
              "writes",
              "Writes columns",
              boxes("writes", table?.columns ?? [], writes, setWrites),
              "what update_row can write",
            )}
            <label className="check">
              <input type="checkbox" checked={backfill} onChange={(event) => setBackfill(event.target.checked)} />{" "}
              Backfill: also start a run for each present row
            </label>
          </div>
        </Panel>
        <Panel title="Who">
          <div className="stack">
            {mine.length > 0 &&
              field(
                "agent",
                "Agent",
                <select {...props("agent")} value={agent} onChange={(event) => setAgent(event.target.value)}>
                  <option value="">a new one</option>
                  {mine.map((each) => (
                    <option key={each}>{each}</option>
                  ))}
                </select>,
                "one that exists keeps its model, prompt and tools",
              )}
            {field(
              "name",
              "Name",
              input("name", name, setName),
              isNew ? "of the agent and its attachment" : "of the attachment",
            )}
            {isNew && (
              <>
                {field(
                  "model",
                  "Model",
                  <select {...props("model")} value={model} onChange={(event) => setModel(event.target.value)}>
                    {models.map((each) => (
                      <option key={each.name}>{each.name}</option>
                    ))}
                  </select>,
                )}
                <label className="field">
                  <span>System prompt</span>
                  <textarea
                    className="prompt"
                    rows={6}
                    value={prompt}
                    spellCheck={false}
                    onChange={(event) => setPrompt(event.target.value)}
                  />
                </label>
                {field(
                  "tools",
                  "Tools",
                  input("tools", tools, setTools, { list: "tools", placeholder: "refund_customer, close_ticket" }),
                  "SQL functions and tools by name; update_row is added if it writes columns",
                )}
                <datalist id="tools">
                  {options.tools.map((each) => (
                    <option key={each} value={each} />
                  ))}
                </datalist>
              </>
            )}
            {field(
              "bind",
              "Bound arguments",
              input("bind", bind, setBind, { placeholder: "ticket_id=id" }),
              "argument=column of the changed row; the model does not see them",
            )}
            {field(
              "approve",
              "Ask for approval of",
              input("approve", approve, setApprove),
              "tools whose calls wait for a person",
            )}
            {field(
              "run_as",
              "Runs as",
              <select {...props("run_as")} value={runAs} onChange={(event) => setRunAs(event.target.value)}>
                {options.roles.map((each) => (
                  <option key={each}>{each}</option>
                ))}
              </select>,
              `a role that ${options.login} is a member of; its privileges are those of the agent`,
            )}
          </div>
        </Panel>
      </div>
      {errors.form && (
        <p className="wrong" role="alert">
          {errors.form}
        </p>
      )}
      <div className="row">
        <button type="submit" className="btn primary" disabled={isSending}>
          {isSending ? "Sending" : `Attach to ${tableName(relation)}`}
        </button>
        <Link className="btn quiet" to="/agents">
          Discard
        </Link>
      </div>
    </form>
  );
}
