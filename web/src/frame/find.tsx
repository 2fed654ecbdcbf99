/** Find: a page, a run by its number, an agent, or rows by key. */
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useId, useState } from "react";

import { tablePath } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { Dialog } from "../parts/confirm";
import { Icon, type IconName } from "../parts/icon";
import { PLACES } from "./nav";

interface Found {
  icon: IconName;
  text: string;
  hint: string;
  to: string;
  search?: Record<string, string>;
}

interface FoundRow {
  kind: string;
  id: string;
  title: string;
  hint: string | null;
}

const KINDS: Record<string, { icon: IconName; to: (row: FoundRow) => Pick<Found, "to" | "search"> }> = {
  run: { icon: "runs", to: (row) => ({ to: `/runs/${row.id}` }) },
  agent: { icon: "agent", to: (row) => ({ to: `/agents/${row.id}` }) },
  thread: { icon: "chat", to: (row) => ({ to: `/threads/${row.id}` }) },
  table: { icon: "table", to: (row) => ({ to: tablePath(row.id) }) },
  row: { icon: "table", to: (row) => ({ to: "/runs", search: { q: row.id } }) },
};

function pages(text: string): Found[] {
  const typed = text.trim().toLowerCase();
  const found: Found[] = PLACES.filter((place) => place.name.toLowerCase().includes(typed)).map((place) => ({
    icon: place.icon,
    text: place.name,
    hint: place.key ? `g ${place.key}` : "",
    to: place.to,
  }));
  if (/^\d+$/.test(typed)) found.unshift({ icon: "runs", text: `Run ${typed}`, hint: "open", to: `/runs/${typed}` });
  if (typed)
    found.push({
      icon: "search",
      text: `Runs with “${text.trim()}”`,
      hint: "row key or text",
      to: "/runs",
      search: { q: text.trim() },
    });
  return found;
}

export default function Find({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const navigate = useNavigate();
  const list = useId();
  const typed = text.trim();
  const { rows, isLoading } = useQueryOnce<FoundRow>("find", { text: typed }, { skip: typed.length < 2 });
  const server: Found[] =
    typed.length < 2
      ? []
      : (rows ?? []).flatMap((row) => {
          const kind = KINDS[row.kind];
          return kind ? [{ icon: kind.icon, text: row.title, hint: row.hint ?? row.kind, ...kind.to(row) }] : [];
        });
  const own = pages(text);
  const found = [...own, ...server.filter((each) => !own.some((other) => other.to === each.to && !other.search))];

  const open = (each: Found | undefined) => {
    if (!each) return;
    onClose();
    void navigate({ to: each.to, search: (each.search ?? {}) as never });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt((at + 1) % Math.max(found.length, 1));
    else if (event.key === "ArrowUp") setAt((at <= 0 ? found.length : at) - 1);
    else if (event.key === "Enter") open(found[at]);
    else if (event.key === "Escape")
      onClose(); // a search field would only be cleared
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Find" className="finder" onClose={onClose}>
      <div className="filterbar">
        <Icon name="search" small />
        <input
          type="search"
          role="combobox"
          aria-label="Find a run, row or page"
          aria-expanded="true"
          aria-controls={list}
          aria-activedescendant={found[at] ? `${list}-${at}` : undefined}
          autoComplete="off"
          spellCheck={false}
          autoFocus
          placeholder="A run number, a row’s key, an agent or a page"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
        <kbd>Esc</kbd>
      </div>
      <ul className="options" role="listbox" id={list} aria-label="Found">
        {found.map((each, i) => (
          <li
            key={`${each.to}${JSON.stringify(each.search)}${each.text}`}
            id={`${list}-${i}`}
            role="option"
            aria-selected={i === at}
            onClick={() => open(each)}
          >
            <span className="row">
              <Icon name={each.icon} />
              <span className="clip">{each.text}</span>
            </span>
            <span className="muted">{each.hint}</span>
          </li>
        ))}
      </ul>
      {typed && !server.length && !isLoading && typed.length > 1 && (
        <p className="body muted">No run, agent, thread or row with “{typed}” that you may see.</p>
      )}
    </Dialog>
  );
}
