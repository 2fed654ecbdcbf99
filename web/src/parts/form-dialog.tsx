/** Dialogs with a form. */
import { type ReactNode, type SubmitEvent, useId, useState } from "react";

import { type Refused, refused } from "../data/request";
import { Dialog } from "./confirm";

interface Removal {
  /** What goes with it. */
  warning: string;
  send: () => Promise<void>;
}

interface FormProps {
  title: string;
  action: string;
  keep: string;
  isReady: boolean;
  send: () => Promise<void>;
  again: () => void;
  onClose: () => void;
  /** What is said if the thing is no longer as it was read. */
  gone?: string;
  /** A second way out, which is asked about. */
  removal?: Removal;
  children: ReactNode;
}

/** A dialog with a form that is sent once, and says why it was refused. */
export function FormDialog(props: FormProps) {
  const { title, action, keep, isReady, again, onClose, gone, removal, children } = props;
  const form = useId();
  const [error, setError] = useState<Refused | null>(null);
  const [isSending, setSending] = useState(false);
  const [isSure, sure] = useState(false);
  const submit = async (send: () => Promise<void>) => {
    setSending(true);
    try {
      await send();
      again();
      onClose();
    } catch (problem) {
      setError(refused(problem));
      setSending(false);
    }
  };
  // What was refused may be about something that has changed; read anew, the form could be gone with what was typed.
  const close = () => {
    if (error) again();
    onClose();
  };
  const onSubmit = (event: SubmitEvent) => {
    event.preventDefault();
    void submit(props.send);
  };
  return (
    <Dialog
      title={title}
      className="edit"
      onClose={close}
      foot={
        <>
          <button type="submit" form={form} className="btn primary" disabled={isSending || !isReady}>
            {isSending ? "Sending" : action}
          </button>
          <button type="button" className="btn quiet" onClick={close}>
            {keep}
          </button>
          {removal &&
            (isSure ? (
              <button
                type="button"
                className="btn danger end"
                disabled={isSending}
                onClick={() => void submit(removal.send)}
              >
                Remove it
              </button>
            ) : (
              <button type="button" className="btn quiet end" onClick={() => sure(true)}>
                Remove…
              </button>
            ))}
        </>
      }
    >
      <form className="body" id={form} onSubmit={onSubmit}>
        {children}
        {isSure && <p role="status">{removal?.warning}</p>}
        {error && (
          <p className="wrong" role="alert">
            {gone && error.status === 404
              ? `${gone}. Close this, and read it again.`
              : `${error.message}. ${error.hint ?? ""}`}
          </p>
        )}
      </form>
    </Dialog>
  );
}
