/** The computer: what is in the database: facts, events and turns of agents, each with a filter. */
import { useState } from "react";

import { FactItem } from "../src/parts/fact";
import { Filtered } from "../src/parts/filtered";
import { Icon } from "../src/parts/icon";
import { Payload } from "../src/parts/payload";
import { State } from "../src/parts/state";
import { Time } from "../src/parts/time";
import { type Fact, type Process, type ThreadEvent, type User, useRows } from "./data";
import { call, nameOf } from "./words";

type Users = ReadonlyMap<string, User>;
type Part = "all" | "memory" | "context" | "processes";

interface ComputerProps {
  thread: string | undefined;
  users: Users;
  isOpen: boolean;
  onClose: () => void;
}

export function Computer({ thread, users, isOpen, onClose }: ComputerProps) {
  const [part, setPart] = useState<Part>("all");
  const facts = useRows("facts").rows.filter((each) => each.thread_id === thread);
  const events = useRows("events").rows.filter((each) => each.thread_id === thread && call(each) !== "do_nothing");
  const processes = useRows("processes").rows.filter((each) => each.thread_id === thread);
  const parts: readonly (readonly [Part, string, number | null])[] = [
    ["all", "All", null],
    ["memory", "Memory", facts.length],
    ["context", "Context", events.length],
    ["processes", "Processes", processes.length],
  ];
  const has = (each: Part) => part === "all" || part === each;
  return (
    <aside className={`computer ${part}${isOpen ? " open" : ""}`} aria-label="Computer">
      <div className="title">
        Computer
        <button type="button" className="btn quiet small icon end shut" aria-label="Close computer" onClick={onClose}>
          <Icon name="x" small />
        </button>
      </div>
      <div className="tabs" role="group" aria-label="Parts of the computer">
        {parts.map(([name, word, count]) => (
          <button
            key={name}
            type="button"
            aria-current={part === name ? "true" : undefined}
            onClick={() => setPart(name)}
          >
            {word} {count !== null && <span className="count">{count}</span>}
          </button>
        ))}
      </div>
      {has("memory") && <Memory facts={facts} users={users} />}
      {has("context") && <Context events={events} users={users} />}
      {has("processes") && <Processes processes={processes} users={users} facts={facts} />}
    </aside>
  );
}

function Memory({ facts, users }: { facts: readonly Fact[]; users: Users }) {
  const sorted = facts.toSorted((a, b) => b.inserted_at.localeCompare(a.inserted_at));
  return (
    <Filtered
      title="Memory"
      what="fact"
      rows={sorted}
      text={(each) => `${nameOf(users, each.subject_id)} ${each.predicate} ${each.object} ${each.category}`}
      empty="No facts yet. Sarah stores what users say about themselves."
    >
      {(rows) => (
        <ul className="facts-list list" tabIndex={0} aria-label="Facts">
          {rows.map((each) => (
            <FactItem key={each.id} subject={nameOf(users, each.subject_id)} {...each} />
          ))}
        </ul>
      )}
    </Filtered>
  );
}

const KINDS = { system: "action", text: "message", tool_use: "tool use", tool_result: "tool result" } as const;

function brief(event: ThreadEvent): string {
  if (event.type === "text") return String(event.data.text);
  if (event.type === "tool_use") return call(event);
  return event.type === "system" ? String(event.data.action) : String(event.data.tool_name);
}

function Context({ events, users }: { events: readonly ThreadEvent[]; users: Users }) {
  const sorted = events.toSorted((a, b) => b.number - a.number);
  return (
    <Filtered
      title="Context"
      what="event"
      rows={sorted}
      text={(each) => `${KINDS[each.type]} ${nameOf(users, each.user_id)} ${JSON.stringify(each.data)}`}
      empty="No events yet."
    >
      {(rows) => (
        <div className="stack tight filter list" tabIndex={0} role="group" aria-label="Events">
          {rows.map((each) => (
            <Payload
              key={each.id}
              title={<span className="chip">{KINDS[each.type]}</span>}
              preview={`${nameOf(users, each.user_id)}: ${brief(each)}`}
              size={`#${each.number}`}
              text={JSON.stringify(each.data, null, 2)}
            />
          ))}
        </div>
      )}
    </Filtered>
  );
}

/** The run states by the words of this page. */
const STATES: Record<string, readonly [state: string, word: string]> = {
  idle: ["pending", "waits for events"],
  pending: ["pending", "starts"],
  running: ["running", "asks the model"],
  waiting_retry: ["retry", "retries"],
  waiting_approval: ["approval", "waits for approval"],
  needs_review: ["review", "outcome unknown"],
};
/** Facts about one user from which a comedian has enough. */
const NEEDS: Record<string, number> = { jerry: 3, frankie: 4 };

interface ProcessesProps {
  processes: readonly Process[];
  users: Users;
  facts: readonly Fact[];
}

function Processes({ processes, users, facts }: ProcessesProps) {
  const known = new Map<string, number>();
  for (const { subject_id } of facts) known.set(subject_id, (known.get(subject_id) ?? 0) + 1);
  const best = Math.max(0, ...known.values());
  const sorted = processes.toSorted((a, b) => nameOf(users, b.user_id).localeCompare(nameOf(users, a.user_id)));
  return (
    <Filtered
      title="Processes"
      what="agent"
      rows={sorted}
      text={(each) => `${nameOf(users, each.user_id)} ${each.state} ${each.reason ?? ""}`}
      empty="No agents in this thread."
    >
      {(rows) => (
        <table>
          <tbody>
            {rows.map((each) => (
              <Row key={each.id} process={each} name={nameOf(users, each.user_id)} best={best} />
            ))}
          </tbody>
        </table>
      )}
    </Filtered>
  );
}

function Row({ process, name, best }: { process: Process; name: string; best: number }) {
  const [state, word] = STATES[process.state] ?? ["pending", process.state];
  const lacks = (NEEDS[name] ?? 0) - best;
  const idle = process.state === "idle" && lacks > 0 ? `needs ${lacks} more ${lacks === 1 ? "fact" : "facts"}` : word;
  return (
    <tr>
      <td>
        <span className="chip agent">{name}</span>
      </td>
      <td>
        <State state={state} word={process.state === "idle" ? idle : word} />
        {process.reason && <p className="muted why-wait">{process.reason}</p>}
        {process.state === "waiting_retry" && process.next_attempt_at && (
          <p className="muted">
            attempt {(process.attempt ?? 0) + 1} <Time at={process.next_attempt_at} />
          </p>
        )}
      </td>
      <td className="num muted">{process.run && `run ${process.run}`}</td>
    </tr>
  );
}
