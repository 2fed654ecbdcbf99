/** Retry, cancel and resolve of one run. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { mutate } from "../data/mutate";
import { isOpen, type RunDetail } from "../data/runs";
import { useApprovals } from "../data/approvals";
import { Confirm, Dialog } from "../parts/confirm";
import { Icon } from "../parts/icon";
import { toast, toastProblem } from "../parts/toast";
import { useKeys } from "../frame/keyboard";
import { useMayOperate } from "./failed-group";

type Asked = "retry" | "cancel" | "resolve" | null;

export function RunActions({ run, quiet = false, keys = false }: { run: RunDetail; quiet?: boolean; keys?: boolean }) {
  const [asked, ask] = useState<Asked>(null);
  const mayOperate = useMayOperate();
  const approvals = useApprovals();
  const review =
    keys && run.state === "waiting_approval" ? approvals.rows.find((each) => each.run_id === run.id) : undefined;
  const canRetry = mayOperate && ["failed", "dead", "cancelled"].includes(run.state);
  const canCancel = mayOperate && isOpen(run.state);
  const canResolve = mayOperate && run.state === "needs_review";
  useKeys(keys ? { r: () => (canRetry ? ask("retry") : false), c: () => (canCancel ? ask("cancel") : false) } : {});
  const act = (name: string, args: object, said: string) => async () => {
    try {
      await mutate(name, { run: run.id, ...args });
      toast(said);
    } catch (error) {
      toastProblem(error);
    }
  };
  return (
    <>
      {canResolve && (
        <button type="button" className="btn primary" onClick={() => ask("resolve")}>
          Resolve…
        </button>
      )}
      {review && (
        <Link className="btn primary only-s" to="/approvals" search={{ approval: review.id }}>
          Review call
        </Link>
      )}
      {canRetry && (
        <button type="button" className="btn" onClick={() => ask("retry")}>
          <Icon name="retry" />
          Retry…
        </button>
      )}
      {canCancel && (
        <button type="button" className={`btn ${quiet ? "quiet" : "danger"}`} onClick={() => ask("cancel")}>
          Cancel run…
        </button>
      )}
      {asked === "retry" && <Retry run={run} act={act} onClose={() => ask(null)} />}
      {asked === "cancel" && (
        <Confirm
          title={`Cancel run ${run.id}?`}
          action="Cancel run"
          keep="Let it go on"
          danger
          onConfirm={act("cancel", { reason: "" }, `Run ${run.id} is cancelled.`)}
          onClose={() => ask(null)}
        >
          <p>It ends after the step that is being executed. What it has committed stays.</p>
        </Confirm>
      )}
      {asked === "resolve" && <Resolve run={run} act={act} onClose={() => ask(null)} />}
    </>
  );
}

type Act = (name: string, args: object, said: string) => () => Promise<void>;

function Retry({ run, act, onClose }: { run: RunDetail; act: Act; onClose: () => void }) {
  const [same, setSame] = useState(false);
  const [fresh, setFresh] = useState(false);
  return (
    <Confirm
      title={`Retry run ${run.id}?`}
      action="Retry run"
      keep="Keep as it is"
      onConfirm={act("retry", { same_version: same, fresh }, `Run ${run.id} is queued.`)}
      onClose={onClose}
    >
      <p>
        {fresh
          ? "The model is shown nothing of the steps before. A run that wrote or sent something is refused."
          : "It goes on from its last step. Steps that committed are not repeated."}{" "}
        Model calls cost money again.
      </p>
      <label className="field">
        Transcript
        <select value={fresh ? "fresh" : "kept"} onChange={(event) => setFresh(event.target.value === "fresh")}>
          <option value="kept">goes on</option>
          <option value="fresh">begins empty</option>
        </select>
      </label>
      {run.version !== null && (
        <label className="field">
          Version of {run.agent}
          <select value={same ? "same" : "current"} onChange={(event) => setSame(event.target.value === "same")}>
            <option value="current">the current one</option>
            <option value="same">version {run.version}, as before</option>
          </select>
        </label>
      )}
    </Confirm>
  );
}

function Resolve({ run, act, onClose }: { run: RunDetail; act: Act; onClose: () => void }) {
  const [note, setNote] = useState("");
  const go = (happened: boolean) => async () => {
    await act("resolve", { happened, note }, `Run ${run.id} is resolved.`)();
    onClose();
  };
  return (
    <Dialog
      title={`Did the call of run ${run.id} happen?`}
      onClose={onClose}
      foot={
        <>
          <button type="button" className="btn primary" onClick={go(true)}>
            It happened
          </button>
          <button type="button" className="btn" onClick={go(false)}>
            It did not happen
          </button>
          <button type="button" className="btn quiet" onClick={onClose}>
            Decide later
          </button>
        </>
      }
    >
      <div className="body stack tight">
        <p>
          A worker stopped between starting <code>{run.what}</code> and recording its result. Check the other system
          first. If it did not happen, the run calls it again.
        </p>
        <label className="field">
          Note for the model (optional)
          <input
            type="text"
            value={note}
            maxLength={2000}
            onChange={(event) => setNote(event.target.value)}
            placeholder="For example: the mail is in the outbox"
          />
        </label>
      </div>
    </Dialog>
  );
}
