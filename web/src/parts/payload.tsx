/** Payloads: closed, with their size; 64 kB at first, from 2 MB on only as a file. */
import { type ReactNode, useState } from "react";

import { visible } from "../data/visible";

import { bytes } from "../data/format";
import { Copy } from "./copy";
import { Icon } from "./icon";

const FIRST = 64_000;
const MOST = 2_000_000;

interface PayloadProps {
  title: ReactNode;
  text: string;
  /** What the closed payload shows of it. */
  preview?: string;
  size?: string;
  open?: boolean;
  name?: string;
  /** What the database left out of it, as a sentence. */
  note?: string;
}

export function Payload({ title, text, preview, size, open = false, name = "payload.txt", note }: PayloadProps) {
  const [shown, setShown] = useState(FIRST);
  const [isOpen, setOpen] = useState(open);
  const isLarge = text.length > MOST;
  return (
    <div className="pl">
      <details className="payload" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <Icon name="right" small className="tw" />
          <span className="strong">{title}</span>
          <span className="clip muted">{visible(preview ?? text.slice(0, 160))}</span>
          <span className="end muted nowrap">{size ?? bytes(text.length)}</span>
        </summary>
        {isOpen && (
          <>
            <pre tabIndex={0}>{visible(text.slice(0, isLarge ? FIRST : shown))}</pre>
            {note && <p className="muted rest">{note}</p>}
            {text.length > (isLarge ? FIRST : shown) && (
              <p className="row wrap rest">
                <span className="soft">
                  {bytes(text.length)}. The first {bytes(isLarge ? FIRST : shown)} are shown.
                </span>
                {!isLarge && (
                  <button type="button" className="btn small" onClick={() => setShown((n) => n + FIRST)}>
                    Show 64 kB more
                  </button>
                )}
                <button type="button" className="btn quiet small" onClick={() => download(name, text)}>
                  <Icon name="dl" small />
                  Download
                </button>
              </p>
            )}
          </>
        )}
      </details>
      <Copy text={text} />
    </div>
  );
}

/** Save *text* as a file. */
export function download(name: string, text: string, type = "text/plain"): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
