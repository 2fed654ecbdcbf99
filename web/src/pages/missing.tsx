/** What is shown for an address without a page, and when a page fails. */
import { Link, type ErrorComponentProps } from "@tanstack/react-router";

import { Refused } from "../data/request";
import { useTitle } from "../frame/title";
import { Icon } from "../parts/icon";
import { Problem } from "../parts/notice";

export function Missing() {
  useTitle("No such page");
  return <Absent text="This page does not exist." to="/" action="Open home" />;
}

/** Something that does not exist, or that one may not see: the same answer for both. */
export function Absent({ text, detail, to, action }: { text: string; detail?: string; to: string; action: string }) {
  return (
    <section className="panel absent">
      <div className="body stack tight">
        <div className="row">
          <Icon name="lock" />
          <b className="strong">{text}</b>
        </div>
        {detail && <p className="soft">{detail}</p>}
        <Link className="btn small fit" to={to}>
          {action}
        </Link>
      </div>
    </section>
  );
}

export function Broken({ error, reset }: ErrorComponentProps) {
  const known = error instanceof Refused ? error : new Refused(0, error instanceof Error ? error.message : String(error), undefined, "Load the page again.");
  return (
    <section className="panel absent">
      <Problem error={known} again={reset} />
    </section>
  );
}
