/** The tab “More” of small screens: the other pages, the time zone, the session. */
import type { ReactNode } from "react";
import { Link } from "@tanstack/react-router";

import { useSession } from "../data/session";
import { PLACES, TABS } from "../frame/nav";
import { useTitle } from "../frame/title";
import { Icon } from "../parts/icon";
import { Panel } from "../parts/panel";

export default function More(): ReactNode {
  useTitle("More");
  const session = useSession();
  return (
    <div className="stack">
      <div className="head">
        <h1>More</h1>
      </div>
      <Panel label="Pages" flush>
        <ul className="links">
          {PLACES.filter((place) => !TABS.includes(place.to)).map((place) => (
            <li key={place.to}>
              <Link to={place.to}>
                <Icon name={place.icon} />
                {place.name}
              </Link>
            </li>
          ))}
        </ul>
      </Panel>
      {session && (
        <Panel title="Session">
          <dl className="kv">
            <dt>Signed in as</dt>
            <dd>{session.principal}</dd>
            <dt>Roles</dt>
            <dd>{session.roles.join(", ") || "none"}</dd>
            <dt>Tenant</dt>
            <dd>{session.tenant}</dd>
            <dt>walagent</dt>
            <dd>{session.version}</dd>
          </dl>
        </Panel>
      )}
    </div>
  );
}
