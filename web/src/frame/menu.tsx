/** A button that opens a list: the browser's `popover`, closed by Esc and by a click elsewhere. */
import { type ReactNode, useId, useRef } from "react";

interface MenuProps {
  label?: string | undefined;
  className: string;
  button: ReactNode;
  title?: string;
  onOpen?: () => void;
  children: (close: () => void) => ReactNode;
}

export function Menu({ label, className, button, title, onOpen, children }: MenuProps) {
  const id = useId();
  const opener = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const place = () => {
    const [from, pop] = [opener.current?.getBoundingClientRect(), list.current];
    if (!from || !pop) return;
    pop.style.top = `${from.bottom + 4}px`; // set through the CSSOM, which the policy allows
    const width = pop.offsetWidth;
    pop.style.left = `${Math.max(8, Math.min(from.left, document.documentElement.clientWidth - width - 8))}px`;
  };
  return (
    <>
      <button
        ref={opener}
        type="button"
        className={className}
        aria-label={label}
        title={title}
        aria-haspopup="dialog"
        popoverTarget={id}
      >
        {button}
      </button>
      <div
        ref={list}
        id={id}
        popover="auto"
        className="pop menu"
        onToggle={(event) => event.newState === "open" && (place(), onOpen?.())}
      >
        {/* eslint-disable-next-line react-hooks/refs -- called by a click, not by rendering */}
        {children(() => list.current?.hidePopover())}
      </div>
    </>
  );
}
