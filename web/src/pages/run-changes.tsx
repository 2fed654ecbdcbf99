/** What a run changed, what others changed of it, and taking it back. */
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import {
  canTakeBack,
  changeParams,
  type Correction,
  outcomeOf,
  refusedLines,
  type Revert,
  type RevertedRow,
  revertResult,
  type RowChanged,
} from "../data/changes";
import { mutate } from "../data/mutate";
import { useQueryOnce } from "../data/queries";
import { badge, type RunDetail, type RunState, type Step } from "../data/runs";
import { visible } from "../data/visible";
import { ChangedRow, CorrectedValue, Lines, RowLink } from "../parts/changed";
import { Dialog } from "../parts/confirm";
import { Icon } from "../parts/icon";
import { Notice } from "../parts/notice";
import { Panel } from "../parts/panel";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";
import { useMayOperate } from "./failed-group";

/** Rows that the page of a run shows; the others are on the page of changes. */
const SHOWN = 50;

const useReverts = (run: string) => useQueryOnce<Revert>("reverts", { run }, { every: 5_000 });
const useChanges = (run: string) =>
  useQueryOnce<RowChanged>("changes", { ...changeParams({ run }), before: "", limit: SHOWN }, { every: 10_000 });
const useCorrections = (run: string) =>
  useQueryOnce<Correction>("corrections", { ...changeParams({ run }), before: "", limit: SHOWN }, { every: 10_000 });

/** Below the steps: rows that the run changed, and what others made of them. */
export function RunChanges({ run }: { run: RunDetail }) {
  const changes = useChanges(run.id);
  const corrections = useCorrections(run.id);
  const reverts = useReverts(run.id);
  const mayOperate = useMayOperate();
  const [isAsking, ask] = useState(false);
  const rows = changes.rows ?? [];
  const corrected = corrections.rows ?? [];
  const all = (tab?: string) => (
    <Link className="btn quiet small" to="/changes" search={{ run: run.id, tab }}>
      All of run {run.id}
    </Link>
  );
  return (
    <>
      {rows.length > 0 && (
        <Panel
          title="Changes"
          id="changes"
          aside={<span className="muted">as the WAL has them</span>}
          end={
            mayOperate && reverts.rows && canTakeBack(run, reverts.rows) ? (
              <button type="button" className="btn small danger" onClick={() => ask(true)}>
                Take back…
              </button>
            ) : undefined
          }
          foot={rows.length === SHOWN ? all() : undefined}
          flush
        >
          {rows.map((row) => (
            <ChangedRow key={row.place} row={row} isOfPage />
          ))}
        </Panel>
      )}
      {corrected.length > 0 && (
        <Panel
          title="Corrections"
          id="corrections"
          aside={<span className="muted">what others changed of it</span>}
          foot={corrected.length === SHOWN ? all("corrections") : undefined}
          flush
        >
          {corrected.map((row) => (
            <CorrectedValue key={row.place} row={row} isOfPage />
          ))}
        </Panel>
      )}
      {isAsking && <TakeBack run={run} again={reverts.again} onClose={() => ask(false)} />}
    </>
  );
}

function TakeBack({ run, again, onClose }: { run: RunDetail; again: () => void; onClose: () => void }) {
  const navigate = useNavigate();
  const [leavesOut, leaveOut] = useState(false);
  const [isSending, setSending] = useState(false);
  const go = (isDry: boolean) => async () => {
    setSending(true);
    try {
      const { result } = await mutate<string>("revert", { run: run.id, dry_run: isDry, only_unchanged: leavesOut });
      toast(isDry ? `Run ${result} finds out what would be done.` : `Run ${result} takes run ${run.id} back.`);
      again();
      onClose();
      await navigate({ to: "/runs/$run", params: { run: result } });
    } catch (error) {
      toastProblem(error);
      onClose();
    }
  };
  return (
    <Dialog
      title={`Take back what run ${run.id} changed?`}
      onClose={onClose}
      foot={
        <>
          <button type="button" className="btn danger" disabled={isSending} onClick={go(false)}>
            {isSending ? "Sending" : "Take back"}
          </button>
          <button type="button" className="btn" disabled={isSending} onClick={go(true)}>
            Look first
          </button>
          <button type="button" className="btn quiet" onClick={onClose}>
            Keep as it is
          </button>
        </>
      }
    >
      <div className="body stack tight">
        <p>
          A worker sets the rows as they were before, in one transaction,{" "}
          {run.run_as ? "as " : "as the role of the run"}
          {run.run_as && <code>{visible(run.run_as)}</code>}. No agent reacts to it. What was sent or called outside the
          database is not taken back. “Look first” does all of it and rolls it back.
        </p>
        <label className="field">
          If a row was changed since
          <select value={leavesOut ? "some" : "none"} onChange={(event) => leaveOut(event.target.value === "some")}>
            <option value="none">take back nothing</option>
            <option value="some">leave out the step that wrote it</option>
          </select>
        </label>
      </div>
    </Dialog>
  );
}

/** Above the steps: which run this one takes back, or which one took it back. */
export function RunReverts({ run }: { run: RunDetail }) {
  const { rows } = useReverts(run.id);
  const own = rows?.find((each) => each.id === run.id);
  const others = (rows ?? []).filter((each) => each.undoes === run.id);
  return (
    <>
      {own && (
        <Notice tone="info">
          <p>
            {own.is_dry ? "Finds out what taking back " : "Takes back "}
            <Link to="/runs/$run" params={{ run: own.undoes }}>
              run {own.undoes}
            </Link>
            {own.is_dry && " would do"}
            {own.by && <>, asked for by {visible(own.by)}</>}
            {own.only_unchanged && ", without steps with a row that was changed since"}.{" "}
            {own.state === "succeeded" && own.result && visible(own.result)}
          </p>
        </Notice>
      )}
      {others.length > 0 && (
        <Notice tone="info">
          {others.map((each) => (
            <p key={each.id} className="row wrap">
              <Link to="/runs/$run" params={{ run: each.id }}>
                run {each.id}
              </Link>
              <span>{said(each)}</span>
              <State state={badge(each.state as RunState)} bare />
              <span className="muted">
                <Time at={each.finished_at ?? each.created_at} />
              </span>
            </p>
          ))}
        </Notice>
      )}
    </>
  );
}

/** What a run of kind `revert` is to the run that it takes back. */
function said(row: Revert): string {
  if (row.is_dry) return "finds out what taking it back would do";
  if (row.is_partial && row.state === "succeeded") return "took some of its steps back";
  if (row.is_in_effect) return "took it back";
  if (row.state === "succeeded") return "took it back, and was taken back itself";
  return ["failed", "dead", "cancelled"].includes(row.state) ? "did not take it back" : "takes it back";
}

/** The outcome of each row of a run of kind `revert`. */
export function Reverted({ steps }: { steps: readonly Step[] }) {
  const found = revertResult(steps);
  if (!found) return null;
  const { result, isKept } = found;
  const calls = [
    ...(result.outside ?? []).map((each) => ({ ...each, why: "acted outside the database" })),
    ...(result.unseen ?? []).map((each) => ({ ...each, why: "has no change that was recorded" })),
  ];
  return (
    <Panel
      title="Rows"
      id="rows"
      aside={<span className="muted">{isKept ? "what was done" : "nothing was changed"}</span>}
      foot={
        calls.length > 0 ? (
          <span>
            {calls.map((each) => (
              <span className="block" key={`${each.step} ${each.name}`}>
                Not taken back: step {each.step} (<code>{visible(each.name)}</code>) {each.why}.
              </span>
            ))}
          </span>
        ) : undefined
      }
      flush
    >
      {result.steps.flatMap((step, at) =>
        step.rows.map((row, n) => <Outcome key={`${at} ${n}`} row={row} isKept={isKept && step.done} />),
      )}
    </Panel>
  );
}

function Outcome({ row, isKept }: { row: RevertedRow; isKept: boolean }) {
  const { state, word } = outcomeOf(row, isKept);
  const { lines, kept } = refusedLines(row);
  const values = Object.values(row.key ?? {});
  const key = values.length === 1 ? (values[0] ?? null) : row.key && JSON.stringify(row.key);
  return (
    <article className="chg" aria-label={`${row.table} ${key ?? ""}`}>
      <p className="row wrap">
        <State state={state} word={word} />
        <span className="chip mono">{row.op.toUpperCase()}</span>
        <RowLink row={{ relation: row.table, key }} />
        {row.reason && <span className="soft">{visible(row.reason)}</span>}
      </p>
      <Lines lines={lines} label="What the run wrote, and what is there" />
      {kept.length > 0 && (
        <>
          <p className="muted">
            <Icon name="step" small /> A trigger sets at each update:
          </p>
          <Lines lines={kept} label="What was there before, and what a trigger sets" />
        </>
      )}
    </article>
  );
}
