import "../src/tokens.css";
import "../src/styles/base.css";
import "../src/styles/parts.css";
import "../src/styles/pages.css";
import "./burn.css";

import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

import { Toasts, toastProblem } from "../src/parts/toast";
import { currentUser, ingest, onSignedOut, type User, useRows } from "./data";
import { go, nextPath, usePath } from "./route";
import { chooseTheme, firstTheme } from "./theme";
import { ThreadPage } from "./thread";
import { Welcome } from "./welcome";

function Burn() {
  const [user, setUser] = useState<User | null | undefined>(undefined);
  const path = usePath();
  useEffect(() => {
    onSignedOut(() => location.reload());
    currentUser().then(setUser, () => setTimeout(() => location.reload(), 2_000));
  }, []);
  const isWelcome = path.startsWith("/welcome");
  useEffect(() => {
    if (user === null && !isWelcome) go(path === "/" ? "/welcome" : `/welcome?next=${encodeURIComponent(path)}`, true);
    if (user && isWelcome) go(nextPath(), true);
  }, [user, isWelcome, path]);
  if (user === undefined || isWelcome !== !user) return null;
  return (
    <>
      {user ? <SignedIn user={user} path={path} /> : <Welcome onUser={setUser} />}
      <Toasts />
    </>
  );
}

function SignedIn({ user, path }: { user: User; path: string }) {
  const [, place, id] = /^\/(threads|join)\/([0-9a-f-]{36})$/.exec(path) ?? [];
  const { rows: threads, isLoading } = useRows("threads");
  const newest = threads.toSorted((a, b) => b.inserted_at.localeCompare(a.inserted_at))[0]?.id;
  const isMember = threads.some((each) => each.id === id);
  useEffect(() => {
    if (isLoading) return;
    if (place === "join" && id && !isMember) void join(user, id);
    else if (place === "join" && id) go(`/threads/${id}`, true);
    else if (!isMember && newest) go(`/threads/${newest}`, true);
  }, [isLoading, place, id, isMember, newest, user]);
  return (
    <ThreadPage user={user} threads={threads} isLoading={isLoading} thread={threads.find((each) => each.id === id)} />
  );
}

const joining = new Set<string>();

async function join(user: User, thread: string): Promise<void> {
  if (joining.has(thread)) return;
  joining.add(thread);
  const row = { id: crypto.randomUUID(), thread_id: thread, user_id: user.id, role: "member" };
  try {
    await ingest({ type: "insert", relation: "memberships", row });
    go(`/threads/${thread}`, true);
  } catch (error) {
    toastProblem(error);
    go("/", true);
  } finally {
    joining.delete(thread);
  }
}

chooseTheme(firstTheme());
createRoot(document.getElementById("root") ?? document.body).render(<Burn />);
