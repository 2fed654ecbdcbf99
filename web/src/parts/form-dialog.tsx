/** Dialogs with a form. */
import { type ReactNode, type SubmitEvent, useId, useState } from "react";

import { type Refused, refused } from "../data/request";
import { Dialog } from "./confirm";

interface FormProps {
  title: string;
  action: string;
  keep: string;
  isReady: boolean;
  send: () => Promise<void>;
  again: () => void;
  onClose: () => void;
  children: ReactNode;
}

/** A dialog with a form that is sent once, and says why it was refused. */
export function FormDialog({ title, action, keep, isReady, send, again, onClose, children }: FormProps) {
  const form = useId();
  const [error, setError] = useState<Refused | null>(null);
  const [isSending, setSending] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
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
  return (
    <Dialog
      title={title}
      className="edit"
      onClose={onClose}
      foot={
        <>
          <button type="submit" form={form} className="btn primary" disabled={isSending || !isReady}>
            {isSending ? "Sending" : action}
          </button>
          <button type="button" className="btn quiet" onClick={onClose}>
            {keep}
          </button>
        </>
      }
    >
      <form className="body" id={form} onSubmit={(event) => void submit(event)}>
        {children}
        {error && (
          <p className="wrong" role="alert">
            {error.message}. {error.hint}
          </p>
        )}
      </form>
    </Dialog>
  );
}
