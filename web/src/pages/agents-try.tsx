/** Try an agent on chosen rows: rows before and after, as it is and with the draft; nothing is kept. */
import { useEffect, useRef, useState } from "react";

import type { AgentVersion, Draft } from "../data/agents";
import { textOf } from "../data/exact";
import { duration, money } from "../data/format";
import { Refused, refused } from "../data/request";
import {
  type Candidate,
  type Candidates,
  type Change,
  draftValues,
  findCandidates,
  median,
  nameOf,
  type Texts,
  type Tried,
  tryRow,
} from "../data/trials";
import { Confirm, Dialog } from "../parts/confirm";
import { Icon } from "../parts/icon";
import { Problem } from "../parts/notice";
import { EmptyBody, Panel, Skeleton } from "../parts/panel";
import { Cell, RowDiff } from "../parts/rowdiff";
import { State } from "../parts/state";
import { type Call, callText, items } from "./steps";

/** Rows that are tried at once. */
const MOST = 10;
const FIRST = 3;

type Result = Tried | Refused;

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
        <EmptyBody title="Not attached to a table" command="walagent attach TABLE --agent NAME">
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

interface SumsProps {
  rows: readonly Candidate[];
  names: readonly [string, string];
  of: (row: Candidate, side: 0 | 1) => Result | undefined;
  hasDraft: boolean;
}

function Sums({ rows, names, of, hasDraft }: SumsProps) {
  const runs = ([0, 1] as const).map((side) =>
    rows.flatMap((row) => {
      const tried = of(row, side);
      return tried && !(tried instanceof Refused) && tried.run ? [tried.run] : [];
    }),
  );
  const [was = [], is = []] = runs;
  const line = (title: string, value: (of: typeof was) => number | null, text: (value: number) => string) => {
    const [before, after] = [value(was), value(is)];
    const change = before === null || after === null ? null : after - before;
    return (
      <tr>
        <td>{title}</td>
        <td>{before === null ? "" : text(before)}</td>
        {hasDraft && (
          <>
            <td>{after === null ? "" : text(after)}</td>
            <td className="num">
              {change === null ? "" : change === 0 ? "same" : `${change > 0 ? "+" : "−"}${text(Math.abs(change))}`}
            </td>
          </>
        )}
      </tr>
    );
  };
  const counted = (state: string) => (found: typeof was) =>
    found.length ? found.filter((run) => run.state === state).length : null;
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="Results">
      <table>
        <thead>
          <tr>
            <th>
              <span className="vh">Measure</span>
            </th>
            <th>{names[0]}</th>
            {hasDraft && (
              <>
                <th>{names[1]}</th>
                <th className="num">Difference</th>
              </>
            )}
          </tr>
        </thead>
        <tbody>
          {line("Succeeded", counted("succeeded"), String)}
          {line("Would wait for approval", counted("waiting_approval"), String)}
          {line(
            "Cost",
            (found) =>
              found.some((run) => run.cost !== null) ? found.reduce((sum, run) => sum + (run.cost ?? 0), 0) : null,
            money,
          )}
          {line("Time, median", (found) => median(found.map((run) => run.ms)), duration)}
        </tbody>
      </table>
    </div>
  );
}

interface TriedRowProps {
  row: Candidate;
  table: string;
  version: number;
  was: Result | undefined;
  is: Result | undefined;
  hasDraft: boolean;
  trying: string | null;
}

function TriedRow({ row, table, version, was, is, hasDraft, trying }: TriedRowProps) {
  const shown = is ?? was;
  const run = shown && !(shown instanceof Refused) ? shown.run : null;
  const isOwn = (change: Change) =>
    change.table === table &&
    Object.entries(row.at).every(([name, value]) => (change.before ?? change.after)?.[name] === value);
  const own = (result: Result | undefined) =>
    result && !(result instanceof Refused) ? result.changes.find(isOwn) : undefined;
  const others = (result: Result | undefined) =>
    result && !(result instanceof Refused) ? result.changes.filter((change) => !isOwn(change)) : [];
  const [old, now] = [own(was), own(is)];
  const before = old?.before ?? now?.before ?? row.content;
  const columns = Object.keys(before).filter((name) =>
    [old, now].some((each) => each && (each.after?.[name] ?? null) !== (before[name] ?? null)),
  );
  const cell = (result: Result | undefined, change: Change | undefined, name: string) => {
    if (!result || result instanceof Refused || !result.run) return <td />;
    if (change?.after === null) return <td className="was">− deleted</td>;
    const value = change?.after ? change.after[name] : before[name];
    const isChanged = (value ?? null) !== (before[name] ?? null);
    const differs =
      hasDraft &&
      isChanged &&
      was &&
      is &&
      result === is &&
      JSON.stringify(old?.after?.[name] ?? before[name]) !== JSON.stringify(value);
    return (
      <td className={isChanged ? (differs || !hasDraft ? "now" : undefined) : undefined}>
        {(differs || (!hasDraft && isChanged)) && "+ "}
        <Cell value={value} />
      </td>
    );
  };
  const rest = Object.entries(row.content).filter(([name]) => !(name in row.at));
  const text = (rest.find(([name, value]) => value && /subject|title|name|issue|text/.test(name)) ??
    rest.find(([, value]) => value && Number.isNaN(Number(value))))?.[1];
  return (
    <div className="stack tight">
      <div className="row wrap">
        <b className="mono strong">
          {table.replace(/^public\./, "")} {row.key}
        </b>
        <span className="clip muted">{text}</span>
        <span className="end muted nowrap">
          {trying ? (
            <State state="running" word={`trying ${trying}`} />
          ) : (
            run && `${run.cost === null ? "no price" : money(run.cost)} · ${duration(run.ms)}`
          )}
        </span>
      </div>
      {columns.length > 0 && (
        <table className="rowdiff panel" aria-label={`Row ${row.key}`}>
          <thead>
            <tr>
              <th>Column</th>
              <th>Before</th>
              <th>v{version}</th>
              {hasDraft && <th>Draft</th>}
            </tr>
          </thead>
          <tbody>
            {columns.map((name) => (
              <tr key={name}>
                <td>{name}</td>
                <td>
                  <Cell value={before[name]} />
                </td>
                {cell(was, old, name)}
                {hasDraft && cell(is, now, name)}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {(hasDraft
        ? ([
            [`v${version}`, was],
            ["draft", is],
          ] as const)
        : ([["", was]] as const)
      ).map(
        ([name, result]) =>
          result && (
            <Outcome key={name} name={name} result={result} others={others(result)} isUnchanged={!own(result)} />
          ),
      )}
    </div>
  );
}

function Outcome({
  name,
  result,
  others,
  isUnchanged,
}: {
  name: string;
  result: Result;
  others: readonly Change[];
  isUnchanged: boolean;
}) {
  const label = name && <span className="muted">{name}: </span>;
  if (result instanceof Refused)
    return (
      <p role="alert">
        {label}
        <State state="failed" bare word="not tried" /> {result.message} <span className="soft">{result.hint}</span>
      </p>
    );
  if (!result.run) return <p className="soft">{label}no run: the condition is not true for the row</p>;
  const calls = items(result.run.steps, undefined).filter((each): each is Call => each.type === "call");
  return (
    <>
      <p className="soft wrapped">
        {label}
        {calls.length === 0 && "no call"}
        {calls.map((call, i) => (
          <span key={call.id}>
            {i > 0 && <span className="arrow">→</span>}
            <code>{callText(call.tool, call.arguments)}</code>
            {call.state === "approval" && <span className="muted"> would ask for approval</span>}
            {call.state === "failed" && <span className="muted"> failed: {textOf(call.result?.content.content)}</span>}
          </span>
        ))}
        {isUnchanged && result.run.state === "succeeded" && !others.length && (
          <span className="muted"> no row would change</span>
        )}
        {!["succeeded", "waiting_approval", "skipped"].includes(result.run.state) && (
          <>
            {" "}
            <State state={result.run.state} bare /> {result.run.error}
          </>
        )}
      </p>
      {result.not_called.map((call, i) => (
        <p className="soft wrapped" key={i}>
          not called, because it acts outside the database: <code>{callText(call.tool, call.arguments)}</code>
        </p>
      ))}
      {others.map((change, i) => (
        <RowDiff key={i} title={change.table.replace(/^public\./, "")} before={change.before} after={change.after} />
      ))}
      {Object.entries(result.not_compared).map(([table, reason]) => (
        <p className="soft" key={table}>
          <code>{table}</code> was written to and is not shown: {reason}
        </p>
      ))}
    </>
  );
}

function ChooseRows({
  found,
  keys,
  onChange,
  onClose,
}: {
  found: Candidates;
  keys: readonly string[];
  onChange: (keys: readonly string[]) => void;
  onClose: () => void;
}) {
  const summary = (content: Texts) =>
    Object.entries(content)
      .map(([name, value]) => `${name} ${value ?? "NULL"}`)
      .join(" · ");
  return (
    <Dialog
      title="Choose rows"
      className="edit"
      onClose={onClose}
      foot={
        <button type="button" className="btn primary" onClick={onClose}>
          Take {keys.length} {keys.length === 1 ? "row" : "rows"}
        </button>
      }
    >
      <div className="body">
        <p className="soft">
          The last {found.rows.length} rows of {found.table} by primary key, as {found.run_as} sees them; up to {MOST}{" "}
          at once.
        </p>
        <ul>
          {found.rows.map((row) => (
            <li key={row.key}>
              <label className="check">
                <input
                  type="checkbox"
                  checked={keys.includes(row.key)}
                  disabled={!keys.includes(row.key) && keys.length >= MOST}
                  onChange={(event) =>
                    onChange(event.target.checked ? [...keys, row.key] : keys.filter((key) => key !== row.key))
                  }
                />
                <span className="wrapped">
                  <b className="mono">{row.key}</b> <span className="muted">{summary(row.content).slice(0, 160)}</span>
                </span>
              </label>
            </li>
          ))}
        </ul>
      </div>
    </Dialog>
  );
}
