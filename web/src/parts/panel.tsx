/** A panel: a head with a title and what belongs to its end, a body, a foot. */
import { type ReactNode, useId } from "react";

import { Copy } from "./copy";

interface PanelProps {
  title?: ReactNode;
  aside?: ReactNode;
  end?: ReactNode;
  foot?: ReactNode;
  children?: ReactNode;
  /** Whether the content has its own padding, as tables have. */
  flush?: boolean;
  label?: string;
  id?: string;
  className?: string;
  busy?: boolean;
}

export function Panel({
  title,
  aside,
  end,
  foot,
  children,
  flush = false,
  label,
  id,
  className = "",
  busy,
}: PanelProps) {
  const heading = useId();
  return (
    <section
      className={`panel ${className}`}
      id={id}
      aria-label={title ? undefined : label}
      aria-labelledby={title ? heading : undefined}
      aria-busy={busy || undefined}
    >
      {title && (
        <header>
          <h2 id={heading}>{title}</h2>
          {aside}
          {end && <span className="end">{end}</span>}
        </header>
      )}
      {flush ? children : <div className="body">{children}</div>}
      {foot && <footer>{foot}</footer>}
    </section>
  );
}

/** What a panel shows when it has nothing: what will appear, and the command that makes it. */
export function Empty({
  title,
  children,
  command,
  action,
}: {
  title: string;
  children?: ReactNode;
  command?: string;
  action?: ReactNode;
}) {
  return (
    <section className="panel empty">
      <EmptyBody title={title} command={command} action={action}>
        {children}
      </EmptyBody>
    </section>
  );
}

/** The same inside a panel. */
export function EmptyBody({
  title,
  children,
  command,
  action,
}: {
  title: string;
  children?: ReactNode;
  command?: string | undefined;
  action?: ReactNode;
}) {
  return (
    <div className="empty">
      <div className="body">
        <h3>{title}</h3>
        {children && <p className="soft">{children}</p>}
        {command && <Command text={command} />}
        {action}
      </div>
    </div>
  );
}

/** A command to run or an SQL statement, with a copy button. */
export function Command({ text }: { text: string }) {
  return (
    <>
      <pre tabIndex={0} className="code wrap">
        {text}
      </pre>
      <Copy text={text} />
    </>
  );
}

/** Lines in place of rows that are loading. */
export function Skeleton({ rows = 3, label = "Loading" }: { rows?: number; label?: string }) {
  return (
    <table aria-label={label} aria-busy="true">
      <tbody>
        {Array.from({ length: rows }, (_, row) => (
          <tr key={row}>
            <td>
              <span className={`skel w${3 - (row % 2)}`} />
            </td>
            <td>
              <span className={`skel w${2 + (row % 2)}`} />
            </td>
            <td>
              <span className="skel w1" />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
