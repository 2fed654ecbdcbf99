/** Dialogs: on the browser's own `dialog`, which keeps the focus inside and closes with Esc. */
import { type ReactNode, useEffect, useId, useRef, useState } from "react";

interface DialogProps {
  title: ReactNode;
  children: ReactNode;
  foot?: ReactNode;
  onClose: () => void;
  className?: string;
}

export function Dialog({ title, children, foot, onClose, className = "" }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-noninteractive-element-interactions -- a click beside it; Escape is a cancel event
    <dialog
      ref={dialog}
      className={`panel pop ${className}`}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <header>
        <h2 id={heading}>{title}</h2>
      </header>
      {children}
      {foot && <footer className="row wrap">{foot}</footer>}
    </dialog>
  );
}

interface ConfirmProps {
  title: ReactNode;
  /** The effect and its count: `Retry 19 runs`. */
  action: string;
  /** What stays if not: `Keep as they are`. */
  keep?: string;
  danger?: boolean;
  /** What has to be typed first: for what cannot be undone. */
  typed?: string;
  children?: ReactNode;
  onConfirm: () => void | Promise<void>;
  onClose: () => void;
}

/** Ask before what spends money, ends runs or touches more than one. */
export function Confirm({
  title,
  action,
  keep = "Keep as it is",
  danger,
  typed,
  children,
  onConfirm,
  onClose,
}: ConfirmProps) {
  const [text, setText] = useState("");
  const [isSending, setSending] = useState(false);
  const go = async () => {
    setSending(true);
    try {
      await onConfirm();
    } finally {
      setSending(false);
      onClose();
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      foot={
        <>
          <button
            type="button"
            className={`btn ${danger ? "danger" : "primary"}`}
            disabled={isSending || (typed !== undefined && text !== typed)}
            onClick={go}
          >
            {isSending ? "Sending" : action}
          </button>
          <button type="button" className="btn quiet" onClick={onClose}>
            {keep}
          </button>
        </>
      }
    >
      <div className="body stack tight">
        {children}
        {typed !== undefined && (
          <label className="field">
            <span>
              Type <code>{typed}</code> to confirm
            </span>
            <input
              type="text"
              value={text}
              onChange={(event) => setText(event.target.value)}
              autoComplete="off"
              spellCheck={false}
            />
          </label>
        )}
      </div>
    </Dialog>
  );
}
