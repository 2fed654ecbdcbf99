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

export function Broken({ error, reset }: ErrorComponentProps): ReactNode {
  return (
    <section className="panel absent">
      <Problem error={refused(error)} again={reset} />
    </section>
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
