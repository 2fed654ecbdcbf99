/** What is shown for an address without a page, and when a page fails. */
import { Link, type ErrorComponentProps, useRouter } from "@tanstack/react-router";
import { type ReactNode, useEffect } from "react";

import { refused } from "../data/request";
import type { Path } from "../parts/address";
import { useTitle } from "../frame/title";
import { Icon, type IconName } from "../parts/icon";
import { Problem } from "../parts/notice";

export function Missing(): ReactNode {
  useTitle("No such page");
  return <Absent text="This page does not exist." to="/" action="Open home" icon="search" />;
}

/** Something that does not exist, or that one may not see: the same answer for both. */
export function Absent({
  text,
  detail,
  to,
  action,
  icon = "lock",
}: {
  text: string;
  detail?: string;
  to: Path;
  action: string;
  icon?: IconName;
}) {
  return (
    <section className="panel absent">
      <div className="body stack tight">
        <div className="row">
          <Icon name={icon} />
          <h1>{text}</h1>
        </div>
        {detail && <p className="soft">{detail}</p>}
        <Link className="btn small fit" to={to}>
          {action}
        </Link>
      </div>
    </section>
  );
}

/** The code of a page did not arrive: the server is away, or another version has taken its place. */
export class NotLoaded extends Error {}

export function Broken({ error, reset }: ErrorComponentProps): ReactNode {
  if (error instanceof NotLoaded)
    return (
      <section className="panel absent">
        <div className="body stack tight">
          <h1>This page was not loaded</h1>
          <p className="soft">
            The server is away, or has another version by now. What is open stays as it is: go back.
          </p>
          <button type="button" className="btn small fit" onClick={() => location.reload()}>
            Load again
          </button>
        </div>
      </section>
    );
  return (
    <section className="panel absent">
      <Problem error={refused(error)} again={reset} />
    </section>
  );
}

/** While it is not known who is signed in. */
export function Opening(): ReactNode {
  return (
    <main className="signin" aria-busy="true">
      <section className="panel" role="status">
        <div className="brand">
          <Icon name="logo" />
          <span className="show">walagent</span>
        </div>
        <p className="soft">Opening. The server has not answered yet.</p>
      </section>
    </main>
  );
}

const PAUSE = 3_000; // milliseconds until it is asked again

/** Instead of the whole page: who is signed in is not known, because nobody answers. */
export function Away({ error }: ErrorComponentProps): ReactNode {
  const router = useRouter();
  useTitle("Away");
  useEffect(() => {
    const asking = setInterval(() => void router.invalidate(), PAUSE);
    return () => clearInterval(asking);
  }, [router]);
  return (
    <main className="signin">
      <section className="panel" aria-labelledby="away">
        <div className="brand">
          <Icon name="logo" />
          <span className="show">walagent</span>
        </div>
        <div className="stack tight">
          <h1 id="away">The console is away</h1>
          <p className="soft">It is asked again every 3 seconds, and opens this page when it answers.</p>
        </div>
        <Problem error={refused(error)} again={() => void router.invalidate()} />
      </section>
    </main>
  );
}
