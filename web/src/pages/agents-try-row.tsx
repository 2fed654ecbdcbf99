/** A row that was tried: what each version made of it. */
import { textOf } from "../data/exact";
import { duration, money } from "../data/format";
import { Refused } from "../data/request";
import { type Candidate, type Change, type Tried } from "../data/trials";
import { Cell, RowDiff } from "../parts/rowdiff";
import { State } from "../parts/state";
import { type Call, callText, items } from "./steps";

export type Result = Tried | Refused;

interface TriedRowProps {
  row: Candidate;
  table: string;
  version: number;
  was: Result | undefined;
  is: Result | undefined;
  hasDraft: boolean;
  trying: string | null;
}

export function TriedRow({ row, table, version, was, is, hasDraft, trying }: TriedRowProps) {
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
