/** Documents: texts that agents retrieve; searched by words, as agents search them. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import type { DocumentRow } from "../data/documents";
import { usePages } from "../data/pages";
import { hasRole, useSession } from "../data/session";
import { useTitle } from "../frame/title";
import { FilterBar } from "../parts/filterbar";
import { More } from "../parts/more";
import { Problem } from "../parts/notice";
import { Empty, Panel, Skeleton } from "../parts/panel";
import { WriteDocument } from "./documents-edit";
import { DocumentEntry } from "./documents-entry";

export default function Documents(): ReactNode {
  useTitle("Documents");
  const { open = "", q = "" } = useSearch({ from: "/signed-in/documents" });
  const navigate = useNavigate();
  const mayWrite = hasRole(useSession()?.roles ?? [], "developer");
  const [turn, setTurn] = useState(0);
  const [isAdding, add] = useState(false);
  const again = () => setTurn(turn + 1);
  const show = (next: { q?: string; open?: string }) =>
    void navigate({ to: "/documents", search: { q, ...next }, replace: true, resetScroll: false });
  return (
    <div className="stack">
      <div className="head">
        <h1>Documents</h1>
        <span className="muted">texts that agents retrieve</span>
        {mayWrite && (
          <div className="actions">
            <button type="button" className="btn" onClick={() => add(true)}>
              Add a document…
            </button>
          </div>
        )}
      </div>
      <FilterBar
        label="Search documents"
        placeholder="words of title and text"
        text={q}
        onChange={(_, text) => show({ q: text })}
      />
      <List
        key={`${q} ${turn}`}
        q={q}
        open={open}
        toggle={(id) => show(id === open ? {} : { open: id })}
        again={again}
      />
      {isAdding && <WriteDocument again={again} onClose={() => add(false)} />}
    </div>
  );
}

interface ListProps {
  q: string;
  open: string;
  toggle: (id: string) => void;
  again: () => void;
}

const MOST_FOUND = 50; // documents of one search

function List({ q, open, toggle, again }: ListProps) {
  const pages = usePages<DocumentRow>("documents", { q }, { limit: 100, before: (row) => row.place });
  if (pages.isLoading)
    return (
      <Panel label="Documents" flush busy>
        <Skeleton rows={8} />
      </Panel>
    );
  if (pages.error && pages.rows.length === 0)
    return (
      <Panel title="Documents" flush>
        <Problem error={pages.error} again={pages.more} />
      </Panel>
    );
  if (pages.rows.length === 0)
    return q ? (
      <Empty title="No document has these words">
        Words are compared as English ones; others are found as written. What another document supersedes is not found.
      </Empty>
    ) : (
      <Empty title="No document" command="insert into agent.document (title, body) values ('TITLE', 'TEXT');">
        Texts for the tool retrieve are stored here; they are cut and embedded in the background.
      </Empty>
    );
  return (
    <Panel
      label="Documents"
      flush
      foot={pages.rows.length === MOST_FOUND && q ? `The ${MOST_FOUND} best are shown.` : undefined}
    >
      {pages.rows.map((row) => (
        <DocumentEntry key={row.id} row={row} isOpen={open === row.id} toggle={toggle} again={again} />
      ))}
      {!q && <More of={pages} />}
    </Panel>
  );
}
