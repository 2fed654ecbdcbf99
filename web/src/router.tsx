/** All routes; each page is a chunk of its own. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";

import { base } from "./data/base";
import { currentSession, loadSession } from "./data/session";
import { Frame } from "./frame/frame";
import { Away, Broken, Missing } from "./pages/missing";
import { SignIn } from "./pages/sign-in";

/** Filters, sort, panel and tab are in the address. */
export type Search = Record<string, string | undefined>;

function search(given: Record<string, unknown>): Search {
  return Object.fromEntries(
    Object.entries(given).map(([key, value]) => [key, value === undefined ? undefined : String(value)]),
  );
}

const root = createRootRoute({ component: Outlet, notFoundComponent: Missing, validateSearch: search });

const signIn = createRoute({ getParentRoute: () => root, path: "/sign-in", component: SignIn });

const signedIn = createRoute({
  getParentRoute: () => root,
  id: "signed-in",
  component: Frame,
  errorComponent: Away,
  beforeLoad: async ({ location }) => {
    if (!currentSession() && !(await loadSession()))
      throw redirect({ to: "/sign-in", search: location.href === "/" ? {} : { to: location.href } });
  },
});

function page(path: string, load: () => Promise<{ default: React.ComponentType }>) {
  return createRoute({ getParentRoute: () => signedIn, path, component: lazyRouteComponent(load) });
}

const pages = [
  page("/", () => import("./pages/home")),
  page("/runs", () => import("./pages/runs")),
  page("/runs/$run", () => import("./pages/run")),
  page("/approvals", () => import("./pages/approvals")),
  page("/approvals/$approval", () => import("./pages/approvals")),
  page("/failed", () => import("./pages/failed")),
  page("/agents", () => import("./pages/agents")),
  page("/agents/$agent", () => import("./pages/agents")),
  page("/agents/$agent/edit", () => import("./pages/agents-edit")),
  page("/attach", () => import("./pages/attach")),
  page("/threads", () => import("./pages/threads")),
  page("/threads/$thread", () => import("./pages/threads")),
  page("/join", () => import("./pages/threads-join")),
  page("/ask", () => import("./pages/ask")),
  page("/tables", () => import("./pages/tables")),
  page("/tables/$table", () => import("./pages/tables")),
  page("/cost", () => import("./pages/cost")),
  page("/wal", () => import("./pages/wal")),
  page("/more", () => import("./pages/more")),
];

// Who is not signed in does not learn which pages exist.
const missing = createRoute({ getParentRoute: () => signedIn, path: "/$", component: Missing });

export const router = createRouter({
  routeTree: root.addChildren([signIn, signedIn.addChildren([...pages, missing])]),
  basepath: base,
  defaultNotFoundComponent: Missing,
  defaultErrorComponent: Broken,
  defaultPendingMs: 200,
  scrollRestoration: true,
  // `?state=failed,dead` stays readable and comes back as it was written.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (values) => {
    const sent = new URLSearchParams();
    for (const [key, value] of Object.entries(values))
      if (value !== undefined && value !== "") sent.set(key, String(value));
    const text = sent.toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
    return text ? `?${text}` : "";
  },
});
