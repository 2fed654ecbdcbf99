/** The computer of a thread: what its agents know, what the last turn was shown, what they do. */
import { Link, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { textOf } from "../data/exact";
import { number } from "../data/format";
import { useSteps } from "../data/runs";
import {
  type Fact,
  type Member,
  type Prompt,
  type Thread,
  type Turn,
  useFacts,
  usePrompt,
  useTurns,
} from "../data/threads";
import { FactItem } from "../parts/fact";
import { Filtered } from "../parts/filtered";
import { Icon } from "../parts/icon";
import { Payload } from "../parts/payload";
import { processesOf, Processes } from "./thread-processes";

const PARTS = ["all", "memory", "context", "processes"] as const;

type Part = (typeof PARTS)[number];

interface ComputerProps {
  thread: Thread;
  members: readonly Member[];
}

export function Computer({ thread, members }: ComputerProps) {
  const search = useSearch({ strict: false });
  const part: Part = PARTS.find((each) => each === search.tab) ?? "all";
  const facts = useFacts(thread.id);
  const turns = useTurns(thread.id);
  const agents = members.filter((each) => each.kind === "agent");
  const processes = processesOf(agents, turns.rows);
  const counts: Record<Part, number | null> = {
    all: null,
    memory: facts.rows.length,
    context: null,
    processes: processes.length,
  };
  const has = (each: Part) => part === "all" || part === each;
  return (
    <aside className={`computer ${part}`} aria-label="Computer">
      <nav className="tabs" aria-label="Parts of the computer">
        <Link
          className="only-s"
          aria-label="Back to the chat"
          to="/threads/$thread"
          params={{ thread: thread.id }}
          search={{ ...search, view: undefined }}
          activeProps={{}}
        >
          <Icon name="left" small />
        </Link>
        {PARTS.map((each) => (
          <Link
            key={each}
            to="/threads/$thread"
            params={{ thread: thread.id }}
            search={{ ...search, tab: each === "all" ? undefined : each }}
            activeProps={{}}
            aria-current={part === each || undefined}
          >
            {each.charAt(0).toUpperCase() + each.slice(1)}{" "}
            {counts[each] !== null && <span className="count">{counts[each]}</span>}
          </Link>
        ))}
      </nav>
      {has("memory") && <Memory facts={facts.rows} />}
      {has("context") && <Context turns={turns.rows} />}
      {has("processes") && <Processes rows={processes} />}
    </aside>
  );
}

function Memory({ facts }: { facts: readonly Fact[] }) {
  return (
    <Filtered
      title="Memory"
      what="fact"
      rows={facts}
      text={(each) =>
        `${each.subject} ${each.predicate} ${each.object} ${each.category} ${each.disputed ? "disputed" : ""}`
      }
      empty="No facts yet. Tools of agents store them with agent.add_fact."
    >
      {(rows) => (
        <ul className="facts-list list" tabIndex={0} aria-label="Facts">
          {rows.map((each) => (
            <FactItem
              key={each.id}
              {...each}
              isAgent={each.subject_kind === "agent"}
              confidence={Number(each.confidence)}
              saidBy={each.said_by}
            />
          ))}
        </ul>
      )}
    </Filtered>
  );
}

/** A part of what the model was shown. */
interface Piece {
  id: string;
  kind: string;
  preview: string;
  text: string;
}

const FRAME = /^<\/?\w+ …>$/; // what data stands between

/** Cut a prompt where it has lines of JSON or tags of its own. */
function pieces(prompt: Prompt): Piece[] {
  const found: Piece[] = [{ id: "system", kind: "system", preview: firstLine(prompt.system), text: prompt.system }];
  prompt.messages.forEach((message, at) => {
    let rest: string[] = [];
    const flush = () => {
      const text = rest.join("\n");
      rest = [];
      if (text.trim() && !FRAME.test(text))
        found.push({ id: `${at} ${found.length}`, kind: message.role, preview: firstLine(text), text });
    };
    for (const line of message.text.split("\n")) {
      const event = parsed(line);
      if (!event) {
        if (line === "" && rest.length) flush();
        else rest.push(line);
        continue;
      }
      flush();
      const kind = textOf(event.type ?? (event.from ? "message" : "thread"));
      const said = event.text ?? event.name ?? event.action ?? event.title ?? "";
      found.push({
        id: `${at} ${found.length}`,
        kind: kind.replace("_", " "),
        preview: [event.from, said].filter(Boolean).map(String).join(": "),
        text: line,
      });
    }
    flush();
  });
  if (prompt.tools.length)
    found.push({
      id: "tools",
      kind: "tools",
      preview: prompt.tools.map((each) => each.name).join(", "),
      text: JSON.stringify(prompt.tools, null, 2),
    });
  return found;
}

function firstLine(text: string): string {
  return text.trimStart().split("\n", 1)[0] ?? "";
}

function parsed(line: string): Record<string, unknown> | null {
  if (!line.startsWith("{")) return null;
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return null;
  }
}

/** Exactly what the model of the last turn was shown first; of another turn, if one is chosen. */
function Context({ turns }: { turns: readonly Turn[] }) {
  const shown = turns.filter((each) => each.has_context);
  const [chosen, choose] = useState("");
  const turn = shown.find((each) => each.id === chosen) ?? shown[0];
  const { rows, error } = usePrompt(turn?.id);
  const prompt = rows?.find((each) => each.run_id === turn?.id);
  const found = useMemo(() => (prompt ? pieces(prompt) : []), [prompt]);
  const whole = prompt ? [prompt.system, ...prompt.messages.map((each) => each.text)].join("\n\n") : "";
  return (
    <Filtered
      title="Context"
      what="part"
      rows={found}
      text={(each) => `${each.kind} ${each.text}`}
      empty={
        error
          ? `The context is not available: ${error.message}`
          : turn
            ? "Reading what the model was shown."
            : "No turn yet: an agent reads the thread when its turn starts."
      }
      aside={turn && <Tokens turn={turn.id} />}
    >
      {(rows) => (
        <div className="stack tight filter list" tabIndex={0} role="group" aria-label="Context">
          <div className="row">
            <label className="vh" htmlFor="turn">
              Turn
            </label>
            <select id="turn" value={turn?.id ?? ""} onChange={(event) => choose(event.target.value)}>
              {shown.map((each, at) => (
                <option key={each.id} value={each.id}>
                  {each.agent}, run {each.id}
                  {at === 0 ? ", the last turn" : ""}
                </option>
              ))}
            </select>
          </div>
          {rows.map((each) => (
            <Payload
              key={`${turn?.id} ${each.id}`}
              title={<span className="chip">{each.kind}</span>}
              preview={each.preview}
              text={each.text}
              name={`run-${turn?.id}-${each.kind}.txt`}
            />
          ))}
          {whole && rows.length === found.length && (
            <Payload
              title="As one text"
              preview="as the model was sent it"
              text={whole}
              name={`run-${turn?.id}-context.txt`}
            />
          )}
        </div>
      )}
    </Filtered>
  );
}

/** What the provider counted for the first request. */
function Tokens({ turn }: { turn: string }) {
  const { rows } = useSteps(turn);
  const first = rows.find((each) => each.kind === "reply");
  const tokens = (first?.input_tokens ?? 0) + (first?.cached_tokens ?? 0);
  return tokens ? <>, {number(tokens)} tokens</> : null;
}
