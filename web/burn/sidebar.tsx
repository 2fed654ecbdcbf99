/** The left side: new thread, threads, who is signed in. */
import { useState } from "react";

import { useTheme } from "../src/frame/theme";
import { Icon } from "../src/parts/icon";
import { Time } from "../src/parts/time";
import { toastProblem } from "../src/parts/toast";
import { Avatar } from "./avatar";
import { ingest, signOut, type Thread, type User } from "./data";
import { follow, go } from "./route";
import { chooseTheme, following } from "./theme";

export function ThemeButton() {
  const theme = useTheme();
  const next = following(theme);
  return (
    <button
      type="button"
      className="btn quiet small icon"
      aria-label={`Theme: ${theme}. Change to ${next}`}
      title={`Theme: ${theme}`}
      onClick={() => chooseTheme(next)}
    >
      <Icon name="theme" small />
    </button>
  );
}

interface SidebarProps {
  user: User;
  threads: readonly Thread[];
  current: string | undefined;
  isOpen: boolean;
  onClose: () => void;
}

export function Sidebar({ user, threads, current, isOpen, onClose }: SidebarProps) {
  const [isSending, setSending] = useState(false);
  const start = async () => {
    setSending(true);
    const row = { id: crypto.randomUUID(), name: `Untitled thread ${threads.length + 1}`, status: "started" };
    try {
      await ingest({ type: "insert", relation: "threads", row });
      go(`/threads/${row.id}`);
      onClose();
    } catch (error) {
      toastProblem(error);
    } finally {
      setSending(false);
    }
  };
  const leave = async () => {
    await signOut().catch(toastProblem);
    location.assign("/welcome");
  };
  return (
    <nav className={`side${isOpen ? " open" : ""}`} aria-label="Threads">
      <div className="top">
        <a className="brand" href="/" onClick={follow}>
          <svg className="i" aria-hidden="true">
            <use href="#i-flame" />
          </svg>
          Burn
        </a>
        <button type="button" className="btn quiet small icon end shut" aria-label="Close threads" onClick={onClose}>
          <Icon name="x" small />
        </button>
      </div>
      <div className="new">
        <button type="button" className="btn" disabled={isSending} onClick={start}>
          <Icon name="plus" small />
          New thread
        </button>
      </div>
      <ul>
        {threads
          .toSorted((a, b) => b.inserted_at.localeCompare(a.inserted_at))
          .map((each) => (
            <li key={each.id}>
              <a
                href={`/threads/${each.id}`}
                aria-current={each.id === current ? "page" : undefined}
                onClick={(event) => {
                  follow(event);
                  onClose();
                }}
              >
                <span className="clip">{each.name}</span>
                <span className="muted">
                  <Time at={each.inserted_at} />
                </span>
              </a>
            </li>
          ))}
      </ul>
      <footer>
        <Avatar user={user} small />
        <span className="clip grow">{user.name}</span>
        <ThemeButton />
        <button type="button" className="btn quiet small icon" aria-label="Log out" title="Log out" onClick={leave}>
          <svg className="i s" aria-hidden="true">
            <use href="#i-out" />
          </svg>
        </button>
      </footer>
    </nav>
  );
}
