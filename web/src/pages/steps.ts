/** From recorded steps to what the page of a run shows: replies, calls with their results, notes. */
import { Exact } from "../data/exact";
import { forkText } from "../data/forks";
import type { Part, RunDetail, Step, StepContent } from "../data/runs";

export interface Call {
  type: "call";
  no: number;
  seq: number;
  id: string;
  tool: string;
  arguments: Record<string, unknown> | null;
  raw: string | undefined;
  state: "running" | "approval" | "rejected" | "committed" | "failed" | "review" | "planned" | "unused";
  result: Step | undefined;
  approval: Step | undefined;
  decision: Step | undefined;
  intent: Step | undefined;
}

export interface Reply {
  type: "reply";
  no: number;
  seq: number;
  step: Step;
  text: string;
  calls: number;
  model: string;
}

export interface Note {
  type: "note";
  no: number;
  seq: number;
  step: Step;
  text: string;
}

export type Item = Reply | Call | Note;

type CallPart = Extract<Part, { call: string }>;

function isCall(part: Part): part is CallPart {
  return "call" in part;
}

/** Whether the calls of a reply are carried out: not those of a control, or of an unsure model of a cascade. */
function hasEffect(reply: Step, steps: readonly Step[]): boolean {
  if ("control" in reply.content) return false;
  return !steps.some((step) => step.seq === reply.seq + 1 && "cascade" in step.content);
}

/** Order the steps as a tree: each reply, and below it its calls. */
export function items(steps: readonly Step[], run: RunDetail | undefined): Item[] {
  const found: Item[] = [];
  const of = (kind: Step["kind"], id: string, tool: string) =>
    steps.find(
      (step) =>
        step.kind === kind &&
        (step.content.call_id === id ||
          (step.content.call_id === undefined && (step.content.tool ?? step.content.name) === tool)),
    );
  for (const step of steps) {
    if (step.kind === "reply") {
      const parts = step.content.parts ?? [];
      const calls = parts.filter(isCall);
      const text = parts.flatMap((part) => ("text" in part ? [part.text] : [])).join("\n");
      found.push({
        type: "reply",
        no: found.length + 1,
        seq: step.seq,
        step,
        text,
        calls: calls.length,
        model: step.content.model ?? run?.model ?? "model",
      });
      const acts = hasEffect(step, steps);
      for (const part of calls) {
        const later = (kind: Step["kind"]) => {
          const each = of(kind, part.call, part.name);
          return acts && each && each.seq > step.seq ? each : undefined;
        };
        const [result, approval, decision, intent] = [
          later("result"),
          later("approval"),
          later("decision"),
          later("intent"),
        ];
        found.push({
          type: "call",
          no: found.length + 1,
          seq: result?.seq ?? approval?.seq ?? intent?.seq ?? step.seq,
          id: part.call,
          tool: part.name,
          arguments: decision?.content.edited ?? part.arguments,
          raw: part.raw,
          state: acts ? callState(result, approval, decision, intent, run) : "unused",
          result,
          approval,
          decision,
          intent,
        });
      }
    } else if (step.kind === "note" || step.kind === "error")
      found.push({
        type: "note",
        no: found.length + 1,
        seq: step.seq,
        step,
        text: noteText(step.content),
      });
  }
  return found;
}

/** What a note says: its text, which model or tier is asked from then on, or who retried the run. */
export function noteText(content: StepContent): string {
  if (content.text ?? content.reason) return content.text ?? content.reason ?? "";
  if (content.fallback)
    return `Asks ${content.fallback} instead of ${content.for ?? "the model"}: ${content.why ?? ""}.`;
  if (content.cascade) return `Asks ${content.cascade} after ${content.for ?? "another model"}: ${content.why ?? ""}.`;
  if (content.control) return `No control of the cascade: ${content.why ?? ""}.`;
  if (content.tier) return `Asks in tier ${content.tier} instead of ${content.for ?? "another"}: ${content.why ?? ""}.`;
  if (content.alone)
    return `Asks alone instead of in a request for ${content.rows ?? "several"} rows: ${content.why ?? ""}.`;
  if (content.fork) return forkText(content);
  if (!content.retry) return "";
  return `Retried by ${content.by ?? "the operator"}${content.fresh ? ", from the beginning" : ""}.`;
}

function callState(
  result: Step | undefined,
  approval: Step | undefined,
  decision: Step | undefined,
  intent: Step | undefined,
  run: RunDetail | undefined,
): Call["state"] {
  if (decision && decision.content.decision !== "approved") return "rejected";
  if (result) return result.content.is_error ? "failed" : "committed";
  if (approval && !decision) return "approval";
  if (intent && run?.state === "needs_review") return "review";
  return run?.state === "running" ? "running" : "planned";
}

/** `name(a => 1, b => 'text')`, as SQL writes a call. */
export function callText(tool: string, args: Record<string, unknown> | null, most = Number.POSITIVE_INFINITY): string {
  const text = `${tool}(${Object.entries(args ?? {})
    .map(([name, value]) => `${name} => ${sqlValue(value)}`)
    .join(", ")})`;
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

export function sqlValue(value: unknown): string {
  if (value === null || value === undefined) return "NULL";
  if (value instanceof Exact) return value.text;
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value === "string") return `'${value.replaceAll("'", "''")}'`;
  return `'${JSON.stringify(value).replaceAll("'", "''")}'`;
}
