/** The decision about a call: approve, edit, reject with a reason; or the answer to a question. */
import { type SubmitEvent, useRef, useState } from "react";

import { useAway } from "../frame/connection";
import { mutate } from "../data/mutate";
import { useTyped } from "../data/draft";
import { Refused } from "../data/request";
import type { ApprovalDetail } from "../data/approvals";
import { useSession } from "../data/session";
import { shape } from "../data/shapes";
import { useKeys } from "../frame/keyboard";
import { Copy } from "./copy";
import { Icon } from "./icon";
import { Panel } from "./panel";
import { toast, toastProblem } from "./toast";

/** Milliseconds that a call must have been on screen before a key or a click decides about it. */
export const READ = 500;

type Sending = "approve" | "reject" | "edit" | null;

interface DecideProps {
  row: ApprovalDetail;
  again: () => void;
  done: () => void;
  /** Whether it no longer waits: somebody else decided, or it expired. */
  isGone?: boolean;
  /** Whether keys decide: where one call is on screen. */
  keys?: boolean;
}

export function Decide({ row, again, done, isGone = false, keys = false }: DecideProps) {
  const me = useSession()?.principal;
  const [reason, setReason] = useTyped(`reason.${row.id}`);
  const [isMissing, setMissing] = useState(false);
  const [edited, setEdited] = useState<string | null>(null);
  const [sending, setSending] = useState<Sending>(null);
  const wasRead = useWasRead();
  const field = useRef<HTMLInputElement>(null);

  const send = async (how: Exclude<Sending, null>, name: string, args: object, said: string) => {
    if (sending) return;
    setSending(how);
    try {
      await mutate(name, { id: row.id, digest: row.digest, ...args }, [shape("approvals", (each) => String(each.id))]);
      setReason("");
      toast(said, { state: how === "reject" ? "rejected" : "approved" });
      done();
    } catch (error) {
      if (error instanceof Refused && error.status === 409)
        toast(<>Not decided: {error.message}</>, { state: "failed" });
      else toastProblem(error);
      again();
    }
    setSending(null);
  };
  const approve = () =>
    wasRead() ? void send("approve", "approve", {}, `Approved ${row.tool} of run ${row.run_id}.`) : sayUnread();
  const reject = () => {
    if (!wasRead()) return sayUnread();
    if (!reason.trim()) {
      setMissing(true);
      field.current?.focus();
      return;
    }
    void send("reject", "reject", { reason: reason.trim() }, `Rejected ${row.tool} of run ${row.run_id}.`);
  };
  const sendEdited = () => {
    try {
      JSON.parse(edited ?? "");
    } catch (error) {
      toast(`The arguments are no JSON: ${(error as Error).message}`, { state: "failed" });
      return;
    }
    // As it was written: parsed, a large number would be rounded.
    void send(
      "edit",
      "approve_edited",
      { arguments: edited },
      `Approved ${row.tool} of run ${row.run_id} with other arguments.`,
    );
  };
  const isHeld = useAway() || sending !== null || isGone;
  const edit = () => setEdited(row.arguments_text);
  const hint = (key: string) => keys && <kbd>{key}</kbd>;
  useKeys({
    a: () => (keys && row.can_decide && !isGone && wasRead() && edited === null ? approve() : false),
    e: () => (keys && row.can_decide ? edit() : false),
    r: () => (keys && row.can_decide ? field.current?.focus() : false),
    Escape: () => (edited !== null ? setEdited(null) : false),
  });
  if (!row.can_decide) return <MayNot row={row} me={me} />;
  if (row.is_question) return <Answer row={row} again={again} done={done} isGone={isGone} />;
  const submit = (event: SubmitEvent) => event.preventDefault(); // Enter decides nothing
  return (
    <form className="decide" aria-label="Decision" onSubmit={submit}>
      {edited !== null && (
        <label className="field">
          Arguments that the model may choose, as JSON; bound ones stay
          <textarea
            rows={Math.min(edited.split("\n").length + 1, 14)}
            className="mono"
            value={edited}
            spellCheck={false}
            autoFocus
            onChange={(event) => setEdited(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) sendEdited();
              if (event.key === "Escape") setEdited(null);
            }}
          />
        </label>
      )}
      {edited === null && (
        <label className="field">
          Reason (required to reject; the model reads it)
          <input
            ref={field}
            type="text"
            value={reason}
            maxLength={2000}
            aria-invalid={isMissing || undefined}
            aria-describedby={isMissing ? "reason-missing" : undefined}
            placeholder="For example: refund only the unused months"
            onChange={(event) => {
              setReason(event.target.value);
              setMissing(false);
            }}
            onKeyDown={(event) => event.key === "Enter" && (event.metaKey || event.ctrlKey) && reject()}
          />
        </label>
      )}
      {isMissing && (
        <p className="missing" id="reason-missing" role="alert">
          A rejection needs a reason: the model reads it and can try something else.
        </p>
      )}
      <div className="row">
        {edited === null ? (
          <>
            <button className="btn primary" type="button" disabled={isHeld} onClick={approve}>
              {sending === "approve" ? "Sending" : "Approve"} {hint("a")}
            </button>
            <button className="btn" type="button" disabled={isHeld} onClick={edit}>
              Edit arguments… {hint("e")}
            </button>
            <button className="btn danger" type="button" disabled={isHeld} onClick={reject}>
              {sending === "reject" ? "Sending" : "Reject"} {hint("r")}
            </button>
          </>
        ) : (
          <>
            <button className="btn primary" type="button" disabled={isHeld} onClick={sendEdited}>
              {sending === "edit" ? "Sending" : "Approve with these arguments"}
            </button>
            <button className="btn quiet" type="button" onClick={() => setEdited(null)}>
              Keep the arguments
            </button>
          </>
        )}
        <span className="end muted hide-s">
          You decide as <b className="strong">{me}</b>. A changed argument makes a new digest.
        </span>
      </div>
    </form>
  );
}

/** Return whether the call has been on screen for long enough to be read: a click can come with its change. */
function useWasRead(): () => boolean {
  const [since] = useState(Date.now);
  return () => Date.now() - since >= READ && document.visibilityState === "visible";
}

const sayUnread = () =>
  toast("Nothing was sent: this call came on screen just now. Read it first.", { state: "failed" });

/** The answer to a question of an agent. */
function Answer({ row, again, done, isGone }: Omit<DecideProps, "keys">) {
  const [text, setText] = useState("");
  const [isSending, setSending] = useState(false);
  const send = async () => {
    if (!text.trim() || isSending || isGone) return;
    setSending(true);
    try {
      await mutate("answer", { id: row.id, text: text.trim() }, [shape("approvals", (each) => String(each.id))]);
      toast(`Answered the question of run ${row.run_id}.`, { state: "approved" });
      done();
    } catch (error) {
      toastProblem(error);
      again();
    }
    setSending(false);
  };
  return (
    <form
      className="decide"
      aria-label="Answer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <label className="field">
        Answer
        <textarea
          rows={3}
          maxLength={8000}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => event.key === "Enter" && (event.metaKey || event.ctrlKey) && void send()}
        />
      </label>
      <div className="row">
        <button className="btn primary" type="submit" disabled={isSending || isGone || !text.trim()}>
          {isSending ? "Sending" : "Answer"}
        </button>
      </div>
    </form>
  );
}

/** Why there are no buttons, and the statement that would change it. */
function MayNot({ row, me }: { row: ApprovalDetail; me: string | undefined }) {
  const isFourEyes = row.four_eyes && me !== undefined && row.requested_by.includes(me);
  const grant = `select agent.grant_role('${me}', 'approver');`;
  return (
    <Panel label="Permission">
      <div className="stack tight">
        <div className="row">
          <Icon name="lock" />
          <b className="strong">
            {isFourEyes
              ? "You started this run, so another person must decide."
              : "You may read approvals, not decide them."}
          </b>
        </div>
        {!isFourEyes && (
          <>
            <p className="soft">
              Deciding needs the role <code>approver</code>. An admin can grant it:
            </p>
            <div className="row">
              <pre tabIndex={0} className="code grow">
                {grant}
              </pre>
              <Copy text={grant} />
            </div>
          </>
        )}
      </div>
    </Panel>
  );
}
