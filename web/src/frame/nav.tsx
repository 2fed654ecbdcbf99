/** Where one can go. */
import { Link, useLocation } from "@tanstack/react-router";

import type { NavCounts } from "../data/counts";
import { atLeast } from "../data/format";
import type { Path } from "../parts/address";
import { Icon, type IconName } from "../parts/icon";

export interface Place {
  to: Path;
  name: string;
  icon: IconName;
  /** The key after `g`. */
  key?: string;
  group: 1 | 2 | 3;
  count?: keyof NavCounts;
}

export const PLACES: readonly Place[] = [
  { to: "/", name: "Home", icon: "home", key: "h", group: 1 },
  { to: "/runs", name: "Runs", icon: "runs", key: "r", group: 1, count: "runs" },
  { to: "/approvals", name: "Approvals", icon: "approve", key: "a", group: 1, count: "approvals" },
  { to: "/failed", name: "Failures", icon: "fail", key: "f", group: 1, count: "failed" },
  { to: "/changes", name: "Changes", icon: "change", key: "c", group: 1 },
  { to: "/agents", name: "Agents", icon: "agent", group: 2, count: "agents" },
  { to: "/evaluations", name: "Evaluations", icon: "scale", key: "v", group: 2 },
  { to: "/workflows", name: "Workflows", icon: "step", key: "w", group: 2 },
  { to: "/threads", name: "Threads", icon: "chat", key: "t", group: 2, count: "threads" },
  { to: "/ask", name: "Ask", icon: "ask", key: "q", group: 2 },
  { to: "/tables", name: "Tables", icon: "table", group: 2, count: "tables" },
  { to: "/memory", name: "Memory", icon: "bulb", key: "m", group: 2 },
  { to: "/documents", name: "Documents", icon: "doc", key: "d", group: 2 },
  { to: "/cost", name: "Cost", icon: "cost", group: 3 },
  { to: "/wal", name: "WAL", icon: "wal", group: 3 },
  { to: "/access", name: "Access", icon: "people", key: "x", group: 3 },
  { to: "/audit", name: "Audit", icon: "book", key: "u", group: 3 },
];

/** Pages that belong to a place without being below it. */
const WITHIN: Readonly<Record<string, string>> = { "/attach": "/agents", "/join": "/threads" };

/** The place of the page that is shown. */
function useCurrent(): (place: Place) => { "aria-current"?: "page" } {
  const { pathname } = useLocation();
  return ({ to }) => (WITHIN[pathname] === to ? { "aria-current": "page" } : {});
}

const MOST = 10_000; // up to which runs are counted

function shown(place: Place, counts: NavCounts | null): string | null {
  if (!place.count || !counts) return null;
  const value = Number(counts[place.count]);
  if (place.count === "approvals" && !value) return null;
  return atLeast(Math.min(value, MOST), value > MOST);
}

export function Nav({ counts, foot }: { counts: NavCounts | null; foot: readonly string[] }) {
  const current = useCurrent();
  return (
    <nav className="nav" aria-label="Main">
      {PLACES.map((place, i) => {
        const number = shown(place, counts);
        return (
          <span key={place.to} className="contents">
            {i > 0 && PLACES[i - 1]?.group !== place.group && <hr />}
            <Link
              to={place.to}
              title={place.name}
              {...current(place)}
              activeOptions={{ exact: place.to === "/" }}
              activeProps={{ "aria-current": "page" }}
            >
              <Icon name={place.icon} />
              <span>{place.name}</span>
              {number && <span className={`count${place.count === "approvals" ? " person" : ""}`}>{number}</span>}
            </Link>
          </span>
        );
      })}
      <p className="foot">
        {foot.map((each) => (
          <span key={each} className="block">
            {each}
          </span>
        ))}
      </p>
    </nav>
  );
}

export const TABS = ["/", "/runs", "/approvals", "/threads"];

export function TabBar({ counts }: { counts: NavCounts | null }) {
  const { pathname } = useLocation();
  const place = WITHIN[pathname] ?? PLACES.find(({ to }) => to !== "/" && pathname.startsWith(to))?.to;
  const isMore = place !== undefined && !TABS.includes(place);
  return (
    <nav className="tabbar" aria-label="Main, small screens">
      {PLACES.filter((place) => TABS.includes(place.to)).map((place) => {
        const number = place.count === "approvals" ? shown(place, counts) : null;
        return (
          <Link
            key={place.to}
            to={place.to}
            activeOptions={{ exact: place.to === "/" }}
            activeProps={{ "aria-current": "page" }}
          >
            <Icon name={place.icon} />
            {place.name}
            {number && <span className="count">{number}</span>}
          </Link>
        );
      })}
      <Link to="/more" {...(isMore ? { "aria-current": "true" } : {})} activeProps={{ "aria-current": "page" }}>
        <Icon name="more" />
        More
      </Link>
    </nav>
  );
}
