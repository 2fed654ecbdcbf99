/** Who may do what: people, services, their roles and tokens. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import type { Principal, Token } from "../data/access";
import { number } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { hasRole, useSession } from "../data/session";
import { useTitle } from "../frame/title";
import { FilterBar } from "../parts/filterbar";
import { NeedsRole } from "../parts/needs-role";
import { Problem } from "../parts/notice";
import { Panel, Skeleton } from "../parts/panel";
import { AddPrincipal, NewToken } from "./access-new";
import { People } from "./access-people";
import { Tokens } from "./access-tokens";

const TABS = {
  people: { name: "People", tab: undefined },
  services: { name: "Services and agents", tab: "services" },
  tokens: { name: "Tokens", tab: "tokens" },
} as const;

export default function Access(): ReactNode {
  useTitle("Access");
  const { tab, q = "" } = useSearch({ from: "/signed-in/access" });
  const navigate = useNavigate();
  const session = useSession();
  const isAdmin = hasRole(session?.roles ?? [], "admin");
  const people = useQueryOnce<Principal>("access_people", {}, { every: 15_000 });
  const tokens = useQueryOnce<Token>("access_tokens", {}, { every: 15_000 });
  const [isAdding, add] = useState(false);
  const [tokenFor, create] = useState<string | null>(null);
  const again = () => {
    people.again();
    tokens.again();
  };
  const of = (isUser: boolean) => (people.rows ?? []).filter((row) => (row.kind === "user") === isUser);
  const counts = {
    people: of(true).length,
    services: of(false).length,
    tokens: (tokens.rows ?? []).filter((row) => row.state === "valid").length,
  };
  const shown = tab === "tokens" ? tokens : people;
  return (
    <div className="stack">
      <div className="head">
        <h1>Access</h1>
        <span className="muted">tenant {session?.tenant}</span>
        {isAdmin && (
          <div className="actions">
            <button type="button" className="btn quiet" onClick={() => create("")}>
              New token…
            </button>
            <button type="button" className="btn primary" onClick={() => add(true)}>
              Add…
            </button>
          </div>
        )}
      </div>
      {!isAdmin && (
        <NeedsRole lacks="admin">
          <b className="strong">You see who may do what, and your own tokens.</b> Changing them, and the tokens of
          others, need the role
        </NeedsRole>
      )}
      <nav className="tabs" aria-label="Access">
        {Object.entries(TABS).map(([key, each]) => (
          <Link
            key={key}
            to="/access"
            search={{ tab: each.tab, q }}
            activeProps={{}}
            aria-current={tab === each.tab || undefined}
            replace
          >
            {each.name} <span className="count">{shown.rows ? number(counts[key as keyof typeof counts]) : ""}</span>
          </Link>
        ))}
      </nav>
      <FilterBar
        className="search-w"
        label={tab === "tokens" ? "Filter tokens" : "Filter people"}
        placeholder={tab === "tokens" ? "Label or name" : "Name, e-mail, login or role"}
        text={q}
        onChange={(_, text) => void navigate({ to: "/access", search: { tab, q: text }, replace: true })}
      />
      {shown.error && !shown.rows ? (
        <Panel title="Access" flush>
          <Problem error={shown.error} again={shown.again} />
        </Panel>
      ) : shown.rows === null ? (
        <Panel label="Access" flush busy>
          <Skeleton rows={5} />
        </Panel>
      ) : tab === "tokens" ? (
        <Tokens rows={tokens.rows ?? []} q={q} isAdmin={isAdmin} again={again} />
      ) : (
        <People
          key={tab ?? ""}
          rows={of(tab === undefined)}
          hasServices={tab !== undefined}
          q={q}
          isAdmin={isAdmin}
          again={again}
          newToken={create}
        />
      )}
      {isAdding && <AddPrincipal known={people.rows ?? []} again={again} onClose={() => add(false)} />}
      {tokenFor !== null && (
        <NewToken people={people.rows ?? []} chosen={tokenFor} again={again} onClose={() => create(null)} />
      )}
    </div>
  );
}
