/** The frame: top bar, navigation, tab bar; the page of the route inside. */
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef } from "react";

import { forgetBack } from "../data/back";
import { useCounts } from "../data/counts";
import { forgetTyped } from "../data/draft";
import { isMac } from "../data/local";
import { signOut, useSession } from "../data/session";
import { forgetShapes } from "../data/shapes";
import { chooseZone, useZone, zones } from "../data/zone";
import { Icon } from "../parts/icon";
import { Toasts } from "../parts/toast";
import { ConnectionBanner, ConnectionMark } from "./connection";
import { find, keysHelp, useFinding, useKeysHelp, useKeyboard } from "./keyboard";
import { Menu } from "./menu";
import { Nav, TabBar } from "./nav";
import { applyTheme, nextTheme, useTheme } from "./theme";

const Find = lazy(() => import("./find"));
const Keys = lazy(() => import("./keys"));

/** Pages that fill the room to the edges. */
const FLUSH = /^\/(runs|approvals(\/.*)?|threads(\/.*)?|tables(\/.*)?)$/;

export function Frame() {
  const session = useSession();
  const counts = useCounts();
  const path = useRouterState({ select: (state) => state.location.pathname });
  const main = useRef<HTMLElement>(null);
  const isFinding = useFinding();
  const isHelping = useKeysHelp();
  useKeyboard();
  useFocusOnMove(path, main);
  const postgres = session?.server_version ? [`PostgreSQL ${session.server_version}`] : [];
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <div className="app">
        <TopBar />
        <Nav counts={counts} foot={session ? [`walagent ${session.version}`, ...postgres] : []} />
        <main id="main" className={FLUSH.test(path) ? "flush" : ""} tabIndex={-1} ref={main}>
          <ConnectionBanner />
          <Outlet />
        </main>
        <TabBar counts={counts} />
      </div>
      <Toasts />
      <Suspense>
        {isFinding && <Find onClose={() => find(false)} />}
        {isHelping && <Keys onClose={() => keysHelp(false)} />}
      </Suspense>
    </>
  );
}

/** Move the focus to the new page, so that a screen reader reads it. */
function useFocusOnMove(path: string, main: React.RefObject<HTMLElement | null>): void {
  const former = useRef(path);
  useEffect(() => {
    if (former.current !== path && (document.activeElement === document.body || document.activeElement?.closest("nav")))
      main.current?.focus({ preventScroll: true });
    former.current = path;
  }, [path, main]);
}

function TopBar() {
  const session = useSession();
  const theme = useTheme();
  return (
    <header className="topbar">
      <Link className="brand" to="/" aria-label="walagent, home">
        <Icon name="logo" />
        <span>walagent</span>
      </Link>
      <Menu
        className="db"
        button={
          <>
            {session?.database} <span className="muted">{session?.host}</span>
            <Icon name="down" small />
          </>
        }
      >
        {() => <DatabaseMenu />}
      </Menu>
      <button className="find" type="button" onClick={() => find(true)}>
        <Icon name="search" />
        <span>Find a run, row or page</span>
        <kbd>{isMac ? "⌘K" : "Ctrl K"}</kbd>
      </button>
      <ConnectionMark />
      <ZoneMenu />
      <button
        className="btn quiet icon"
        type="button"
        aria-label={`Theme: ${theme}. Change to ${nextTheme(theme)}`}
        title={`Theme: ${theme}`}
        onClick={() => applyTheme(nextTheme(theme))}
      >
        <Icon name="theme" />
      </button>
      <Menu
        className="btn quiet icon hide-s"
        label={`Signed in as ${session?.principal}`}
        button={<Icon name="user" />}
      >
        {(close) => <PersonMenu close={close} />}
      </Menu>
    </header>
  );
}

function DatabaseMenu() {
  const session = useSession();
  if (!session) return null;
  return (
    <dl className="kv">
      <dt>Database</dt>
      <dd>{session.database}</dd>
      <dt>Tenant</dt>
      <dd>{session.tenant}</dd>
      <dt>walagent</dt>
      <dd>{session.version}</dd>
      <dt>Time zone</dt>
      <dd>{session.time_zone}</dd>
    </dl>
  );
}

function ZoneMenu() {
  const zone = useZone();
  const session = useSession();
  return (
    <Menu
      className="btn quiet small hide-s"
      title="Times are shown in this zone. Click to change."
      button={zone.replaceAll("_", " ")}
    >
      {(close) => (
        <label className="field">
          Time zone of this page
          <select
            value={zone}
            onChange={(event) => {
              chooseZone(event.target.value);
              close();
            }}
          >
            {zones(session?.time_zone).map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      )}
    </Menu>
  );
}

function PersonMenu({ close }: { close: () => void }) {
  const session = useSession();
  const navigate = useNavigate();
  if (!session) return null;
  return (
    <div className="stack tight">
      <dl className="kv">
        <dt>Signed in as</dt>
        <dd>{session.principal}</dd>
        <dt>Roles</dt>
        <dd>{session.roles.join(", ") || "none"}</dd>
        <dt>Tenant</dt>
        <dd>{session.tenant}</dd>
      </dl>
      <div className="row">
        <button
          type="button"
          className="btn small"
          onClick={async () => {
            await signOut();
            forgetShapes();
            forgetBack();
            forgetTyped();
            await navigate({ to: "/sign-in" });
          }}
        >
          Sign out
        </button>
        <button
          type="button"
          className="btn quiet small"
          onClick={() => {
            close();
            keysHelp(true);
          }}
        >
          Keys <kbd>?</kbd>
        </button>
      </div>
    </div>
  );
}
