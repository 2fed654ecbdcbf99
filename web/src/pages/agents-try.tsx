/** Try an agent on chosen rows: rows before and after, as it is and with the draft; nothing is kept. */
import { useEffect, useRef, useState } from "react";

import type { AgentVersion, Draft } from "../data/agents";
import { money } from "../data/format";
import { Refused, refused } from "../data/request";
import { type Candidate, type Candidates, draftValues, findCandidates, nameOf, tryRow } from "../data/trials";
import { Confirm } from "../parts/confirm";
import { Icon } from "../parts/icon";
import { Problem } from "../parts/notice";
import { EmptyBody, Panel, Skeleton } from "../parts/panel";
import { type Result, TriedRow } from "./agents-try-row";
import { Sums } from "./agents-try-sums";
import { ChooseRows } from "./agents-try-choose";

const FIRST = 3;

interface TryProps {
  attachments: readonly string[];
  base: AgentVersion;
  draft: Draft;
  hasChanges: boolean;
  isBlocked: boolean;
}

export function Try({ attachments, base, draft, hasChanges, isBlocked }: TryProps) {
  const [chosenAttachment, choose] = useState<string | null>(null);
  const attachment = chosenAttachment ?? attachments[0];
  if (attachment === undefined)
    return (
      <Panel title="Try" flush>
        <EmptyBody title="Not attached to a table" command="walagent agents attach TABLE --agent NAME">
          An agent is tried on rows of the table that it is attached to.
        </EmptyBody>
      </Panel>
    );
  const pick = attachments.length > 1 && (
    <select aria-label="Attachment" value={attachment} onChange={(event) => choose(event.target.value)}>
      {attachments.map((each) => (
        <option key={each}>{each}</option>
      ))}
    </select>
  );
  return (
    <TryOn
      key={attachment}
      attachment={attachment}
      pick={pick}
      base={base}
      draft={draft}
      hasChanges={hasChanges}
      isBlocked={isBlocked}
    />
  );
}

interface TryOnProps extends Omit<TryProps, "attachments"> {
  attachment: string;
  pick: React.ReactNode;
}

function TryOn({ attachment, pick, base, draft, hasChanges, isBlocked }: TryOnProps) {
  const [found, setFound] = useState<Candidates | null>(null);
  const [problem, setProblem] = useState<Refused | null>(null);
  const [turn, setTurn] = useState(0);
  const [keys, setKeys] = useState<readonly string[]>([]);
  const [results, setResults] = useState<Readonly<Record<string, Result>>>({});
  const [trying, setTrying] = useState<string | null>(null);
  const [approved, setApproved] = useState(false);
  const [isAsking, ask] = useState<"rows" | "pay" | null>(null);
  const [hasPaid, setPaid] = useState(false);
  const [spent, setSpent] = useState(0);
  const stop = useRef<AbortController | null>(null);

  useEffect(() => {
    const aborted = new AbortController();
    setProblem(null);
    findCandidates(attachment, aborted.signal)
      .then((next) => {
        setFound(next);
        setKeys((held) => (held.length ? held : next.rows.slice(0, FIRST).map((row) => row.key)));
      })
      .catch((error: unknown) => !aborted.signal.aborted && setProblem(refused(error)));
    return () => aborted.abort();
  }, [attachment, turn]);
  useEffect(() => () => stop.current?.abort(), []);

  const way = approved ? "approved" : "asked";
  const baseName = `${way} v${base.version}`;
  const draftName = hasChanges ? `${way} ${nameOf(draft, base)}` : null;
  const rows = (found?.rows ?? []).filter((row) => keys.includes(row.key));
  const of = (row: Candidate, name: string | null) => (name === null ? undefined : results[`${name} ${row.key}`]);

  const start = async () => {
    setPaid(true);
    const aborting = new AbortController();
    stop.current = aborting;
    const wanted = rows.flatMap((row) => [
      // What the version in use does with a row is asked once.
      ...(of(row, baseName) && draftName ? [] : [{ row, name: baseName, values: null as object | null }]),
      ...(draftName ? [{ row, name: draftName, values: draftValues(draft, base) }] : []),
    ]);
    for (const { row, name, values } of wanted) {
      const at = `${name} ${row.key}`;
      setTrying(at);
      try {
        const tried = await tryRow(attachment, row, values, approved, aborting.signal);
        setSpent((sum) => sum + (tried.run?.cost ?? 0));
        setResults((held) => ({ ...held, [at]: tried }));
      } catch (error) {
        if (aborting.signal.aborted) break;
        setResults((held) => ({ ...held, [at]: refused(error) }));
      }
    }
    setTrying(null);
  };

  if (problem)
    return (
      <Panel title="Try" flush>
        {problem.status === 403 ? (
          <div className="body stack tight">
            <p>{problem.message}.</p>
            {problem.hint && <p className="soft">{problem.hint}</p>}
          </div>
        ) : (
          <Problem error={problem} again={() => setTurn((n) => n + 1)} />
        )}
      </Panel>
    );
  if (!found)
    return (
      <Panel title="Try" flush busy>
        <Skeleton />
      </Panel>
    );
  const count = `${rows.length} ${rows.length === 1 ? "row" : "rows"}`;
  const hasResults = rows.some((row) => of(row, baseName) ?? of(row, draftName));
  return (
    <Panel
      title="Try"
      aside={<span className="muted">on {count}; every change is rolled back</span>}
      end={
        <span className="row wrap">
          {pick}
          <button type="button" className="btn small" disabled={!found.rows.length} onClick={() => ask("rows")}>
            Choose rows…
          </button>
          {trying ? (
            <button type="button" className="btn small" onClick={() => stop.current?.abort()}>
              Stop
            </button>
          ) : (
            <button
              type="button"
              className="btn small primary"
              disabled={!rows.length || isBlocked}
              onClick={() => (hasPaid ? void start() : ask("pay"))}
            >
              <Icon name="play" small />
              {hasResults ? "Try again" : `Try on ${count}`}
            </button>
          )}
        </span>
      }
      foot={
        <>
          Model calls are real and are paid: {money(spent)} so far, in no budget. Runs act as{" "}
          <code>{found.run_as}</code>; rows that they write are locked until each trial ends. Tools that act outside the
          database are not called.
        </>
      }
      flush
    >
      {found.rows.length === 0 ? (
        <EmptyBody title="No rows">
          {found.table} has none that {found.run_as} can see. Insert one, then try.
        </EmptyBody>
      ) : (
        <>
          {hasResults && (
            <Sums
              rows={rows}
              names={[`v${base.version}`, "Draft"]}
              of={(row, side) => of(row, side ? draftName : baseName)}
              hasDraft={draftName !== null}
            />
          )}
          <div className="body stack">
            <label className="check">
              <input
                type="checkbox"
                checked={approved}
                disabled={trying !== null}
                onChange={(event) => setApproved(event.target.checked)}
              />{" "}
              Execute calls that would wait for approval
            </label>
            {rows.map((row) => (
              <TriedRow
                key={row.key}
                row={row}
                table={found.table}
                version={base.version}
                was={of(row, baseName)}
                is={of(row, draftName)}
                hasDraft={draftName !== null}
                trying={
                  trying === `${baseName} ${row.key}`
                    ? `v${base.version}`
                    : trying && trying === `${draftName} ${row.key}`
                      ? "the draft"
                      : null
                }
              />
            ))}
          </div>
        </>
      )}
      {isAsking === "rows" && <ChooseRows found={found} keys={keys} onChange={setKeys} onClose={() => ask(null)} />}
      {isAsking === "pay" && (
        <Confirm
          title={`Try on ${count}?`}
          action={`Try on ${count}`}
          keep="Not now"
          onConfirm={() => {
            void start();
          }}
          onClose={() => ask(null)}
        >
          <p>
            The model is called and paid:{" "}
            {found.first_cost === null
              ? "its price is unknown"
              : `up to ${money(found.first_cost)} for the first call of each${hasChanges ? ", once as it is and once with the draft" : ""}`}
            . No row, run or attachment stays as a trial left it. Sequences advance.
          </p>
        </Confirm>
      )}
    </Panel>
  );
}
