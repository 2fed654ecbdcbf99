/** Find: a page, a run by its number, an agent, or rows by key. */
import { linkOptions, useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useId, useState } from "react";

import { useQueryOnce } from "../data/queries";
import type { Address } from "../parts/address";
import { Dialog } from "../parts/confirm";
import { Icon, type IconName } from "../parts/icon";
import { PLACES } from "./nav";

interface Found {
  icon: IconName;
  text: string;
  hint: string;
  address: Address;
}

interface FoundRow {
  kind: string;
  id: string;
  title: string;
  hint: string | null;
}

const KINDS: Record<string, { icon: IconName; address: (row: FoundRow) => Address }> = {
  run: { icon: "runs", address: (row) => linkOptions({ to: "/runs/$run", params: { run: row.id } }) },
  agent: { icon: "agent", address: (row) => linkOptions({ to: "/agents/$agent", params: { agent: row.id } }) },
  thread: { icon: "chat", address: (row) => linkOptions({ to: "/threads/$thread", params: { thread: row.id } }) },
  table: { icon: "table", address: (row) => linkOptions({ to: "/tables/$table", params: { table: row.id } }) },
  row: { icon: "table", address: (row) => linkOptions({ to: "/runs", search: { q: row.id } }) },
};

function pages(text: string): Found[] {
  const typed = text.trim().toLowerCase();
  const found: Found[] = PLACES.filter((place) => place.name.toLowerCase().includes(typed)).map((place) => ({
    icon: place.icon,
    text: place.name,
    hint: place.key ? `g ${place.key}` : "",
    address: { to: place.to },
  }));
  if (/^\d+$/.test(typed))
    found.unshift({
      icon: "runs",
      text: `Run ${typed}`,
      hint: "open",
      address: linkOptions({ to: "/runs/$run", params: { run: typed } }),
    });
  if (typed)
    found.push({
      icon: "search",
      text: `Runs with “${text.trim()}”`,
      hint: "row key or text",
      address: linkOptions({ to: "/runs", search: { q: text.trim() } }),
    });
  return found;
}

function isSame(a: Address, b: Address): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
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
          return kind
            ? [{ icon: kind.icon, text: row.title, hint: row.hint ?? row.kind, address: kind.address(row) }]
            : [];
        });
  const own = pages(text);
  const found = [...own, ...server.filter((each) => !own.some((other) => isSame(other.address, each.address)))];

  const open = (each: Found | undefined) => {
    if (!each) return;
    onClose();
    void navigate(each.address);
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
          // eslint-disable-next-line jsx-a11y/click-events-have-key-events -- keys go to the field above
          <li
            key={`${JSON.stringify(each.address)}${each.text}`}
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
