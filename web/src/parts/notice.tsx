/** Notices: what a person should know before the rest of the page; and errors in their place. */
import type { ReactNode } from "react";

import { Refused } from "../data/request";
import { Copy } from "./copy";
import { Icon, type IconName } from "./icon";

type Tone = "person" | "failed" | "info" | "ok" | "retry";

const ICONS: Record<Tone, IconName> = {
  person: "s-approval",
  failed: "fail",
  info: "clock",
  ok: "s-ok",
  retry: "plug",
};

export function Notice({
  tone,
  icon,
  children,
  action,
  live,
}: {
  tone: Tone;
  icon?: IconName;
  children: ReactNode;
  action?: ReactNode;
  live?: "status" | "alert";
}) {
  return (
    <div className={`notice ${tone}`} role={live}>
      <Icon name={icon ?? ICONS[tone]} />
      <div>{children}</div>
      {action}
    </div>
  );
}

/** What could not be loaded, inside the panel that lacks it. */
export function Problem({ error, again }: { error: Refused; again?: () => void }) {
  const details = [error.code, error.message, error.hint].filter(Boolean).join("\n");
  return (
    <div className="body stack tight" role="alert">
      <p>
        {error.code && <code>{error.code}</code>} {error.message}
      </p>
      <p className="soft">{error.hint ?? "The rest of the page is live."}</p>
      <div className="row">
        {again && (
          <button type="button" className="btn small" onClick={again}>
            Try again
          </button>
        )}
        <Copy text={details} label="Copy details" />
      </div>
    </div>
  );
}
