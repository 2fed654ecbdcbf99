/** What each agent of a thread does, and its turns that ended. */
import { Link } from "@tanstack/react-router";

import { money } from "../data/format";
import { badge } from "../data/runs";
import { type Member, type Turn } from "../data/threads";
import { Filtered } from "../parts/filtered";
import { State } from "../parts/state";
import { Time } from "../parts/time";

/** The run states by the words of this page. */
const WORDS: Partial<Record<Turn["state"], string>> = {
  pending: "starts",
  running: "is writing",
  waiting_retry: "retries",
  waiting_approval: "waits for approval",
  needs_review: "outcome unknown",
};

const OPEN = new Set(["pending", "running", "waiting_approval", "waiting_retry", "needs_review"]);

interface Process {
  id: string;
  agent: string;
  turn: Turn | undefined;
}

/** Each agent with what it does, then the turns that ended. */
export function processesOf(agents: readonly Member[], turns: readonly Turn[]): Process[] {
  const now: Process[] = agents.map((agent) => {
    const open = turns.find((each) => each.agent === agent.name && OPEN.has(each.state));
    return { id: open?.id ?? agent.name, agent: agent.name, turn: open };
  });
  const shown = new Set(now.map((each) => each.id));
  return [
    ...now,
    ...turns.filter((each) => !shown.has(each.id)).map((turn) => ({ id: turn.id, agent: turn.agent, turn })),
  ];
}

export function Processes({ rows: all }: { rows: readonly Process[] }) {
  return (
    <Filtered
      title="Processes"
      what="process"
      rows={all}
      text={(each) =>
        `${each.agent} ${each.turn ? `${each.turn.state} ${WORDS[each.turn.state] ?? ""} ${each.turn.what ?? ""} run ${each.turn.id}` : "waits for events"}`
      }
      empty="No agents in this thread."
    >
      {(rows) => (
        <div className="list" tabIndex={0} role="group" aria-label="Processes">
          <table>
            <tbody>
              {rows.map((each) => (
                <tr key={each.id}>
                  <td>
                    <span className="chip agent">{each.agent}</span>
                  </td>
                  <td>
                    <Doing process={each} />
                  </td>
                  <td className="num">
                    {each.turn && (
                      <>
                        <Link to="/runs/$run" params={{ run: each.turn.id }}>
                          run {each.turn.id}
                        </Link>
                        <p className="muted">
                          {each.turn.cost !== null && Number(each.turn.tokens) ? money(each.turn.cost) : null}
                        </p>
                      </>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Filtered>
  );
}

function Doing({ process: { turn } }: { process: Process }) {
  if (!turn) return <State state="pending" word="waits for events" />;
  const isRetry = turn.state === "waiting_retry" && turn.next_attempt_at;
  return (
    <>
      <State
        state={badge(turn.state)}
        word={turn.kind === "summary" && turn.state === "running" ? "summarizes" : (WORDS[turn.state] ?? turn.state)}
      />{" "}
      {turn.finished_at && (
        <span className="muted nowrap">
          <Time at={turn.finished_at} short />
        </span>
      )}
      {turn.what && turn.state !== "succeeded" && <p className="muted why-wait">{turn.what}</p>}
      {isRetry && (
        <p className="muted">
          attempt {turn.attempt + 1} of {turn.max_attempts} <Time at={turn.next_attempt_at} />
        </p>
      )}
    </>
  );
}
