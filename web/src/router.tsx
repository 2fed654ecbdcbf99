/** All routes; each page is a chunk of its own. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";

import { AUDIT_FILTERS } from "./data/audit";
import { base } from "./data/base";
import { CHANGE_FILTERS } from "./data/changes";
import { EVALUATION_FILTERS } from "./data/evaluations";
import { MEMORY_FILTERS } from "./data/memory";
import { RUN_FILTERS } from "./data/runs";
import { currentSession, loadSession } from "./data/session";
import { Frame } from "./frame/frame";
import { Away, Broken, Missing, NotLoaded, Opening } from "./pages/missing";
import { SignIn } from "./pages/sign-in";

/** Filters, sort, panel and tab are in the address: the parameters that a page knows, as texts. */
function texts<const Name extends string>(...names: readonly Name[]) {
  return (given: Record<string, unknown>): Partial<Record<Name, string>> =>
    Object.fromEntries(
      names.flatMap((name) => (typeof given[name] === "string" ? [[name, given[name]]] : [])),
    ) as Partial<Record<Name, string>>;
}

const root = createRootRoute({ component: Outlet, notFoundComponent: Missing });

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  component: SignIn,
  validateSearch: texts("to", "ended"),
});

const signedIn = createRoute({
  getParentRoute: () => root,
  id: "signed-in",
  component: Frame,
  errorComponent: Away,
  pendingComponent: Opening,
  pendingMs: 300,
  beforeLoad: async ({ location }) => {
    if (!currentSession() && !(await loadSession()))
      throw redirect({ to: "/sign-in", search: location.href === "/" ? {} : { to: location.href } });
  },
});

const loads: (() => Promise<unknown>)[] = [];

/** Load the code of all pages once there is nothing else to do: a server that is away has none of it. */
export function loadPages(): void {
  const load = () => void Promise.allSettled(loads.map((each) => each()));
  if ("requestIdleCallback" in window) requestIdleCallback(load, { timeout: 5_000 });
  else setTimeout(load, 2_000);
}

function page<const Path extends string, const Name extends string = never>(
  path: Path,
  load: () => Promise<{ default: React.ComponentType }>,
  ...names: readonly Name[]
) {
  loads.push(load);
  return createRoute({
    getParentRoute: () => signedIn,
    path,
    // Another error than the browser's: for that one, the router reloads the page, and loses it.
    component: lazyRouteComponent(() =>
      load().catch((error: unknown) => {
        throw new NotLoaded(String(error));
      }),
    ),
    validateSearch: texts(...names),
  });
}

const pages = [
  page("/", () => import("./pages/home")),
  page("/runs", () => import("./pages/runs"), ...RUN_FILTERS, "panel"),
  page("/runs/$run", () => import("./pages/run")),
  page("/changes", () => import("./pages/changes"), ...CHANGE_FILTERS, "tab"),
  page("/approvals", () => import("./pages/approvals"), "tab", "approval", "q", "sort"),
  page("/approvals/$approval", () => import("./pages/approvals"), "tab", "approval", "q", "sort"),
  page("/failed", () => import("./pages/failed"), "since", "q", "open", "view"),
  page("/agents", () => import("./pages/agents"), "q"),
  page("/agents/$agent", () => import("./pages/agents"), "q"),
  page("/agents/$agent/edit", () => import("./pages/agents-edit"), "from", "to", "view"),
  page("/evaluations", () => import("./pages/evaluations"), ...EVALUATION_FILTERS),
  page("/evaluations/$evaluation", () => import("./pages/evaluation"), "only", "open", "with"),
  page("/attach", () => import("./pages/attach"), "table"),
  page("/workflows", () => import("./pages/workflows"), "run"),
  page("/workflows/$workflow", () => import("./pages/workflows"), "run"),
  page("/threads", () => import("./pages/threads"), "tab", "view", "archived"),
  page("/threads/$thread", () => import("./pages/threads"), "tab", "view", "archived"),
  page("/join", () => import("./pages/threads-join"), "thread"),
  page("/ask", () => import("./pages/ask"), "question"),
  page("/memory", () => import("./pages/memory"), ...MEMORY_FILTERS, "open"),
  page("/documents", () => import("./pages/documents"), "q", "open"),
  page("/tables", () => import("./pages/tables"), "key"),
  page("/tables/$table", () => import("./pages/tables"), "key"),
  page("/cost", () => import("./pages/cost"), "days", "agent"),
  page("/wal", () => import("./pages/wal")),
  page("/access", () => import("./pages/access"), "tab", "q"),
  page("/audit", () => import("./pages/audit"), ...AUDIT_FILTERS, "open"),
  page("/more", () => import("./pages/more")),
] as const;

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

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
