/** Principals with their roles as boxes; changes are a draft, saved together. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import {
  type Change,
  ENDS,
  found,
  isTicked,
  meaning,
  MEANINGS,
  type Principal,
  type Role,
  ROLES,
  sent,
  textOf,
  toggled,
} from "../data/access";
import { minute } from "../data/format";
import { mutate } from "../data/mutate";
import { visible } from "../data/visible";
import { useZone } from "../data/zone";
import { Menu } from "../frame/menu";
import { Initial } from "../parts/avatar";
import { Confirm } from "../parts/confirm";
import { Icon } from "../parts/icon";
import { Empty, Panel } from "../parts/panel";
import { Table } from "../parts/table";
import { toast, toastProblem } from "../parts/toast";

interface PeopleProps {
  rows: readonly Principal[];
  hasServices: boolean;
  q: string;
  isAdmin: boolean;
  again: () => void;
  newToken: (principal: string) => void;
}

export function People({ rows, hasServices, q, isAdmin, again, newToken }: PeopleProps) {
  const [draft, setDraft] = useState<readonly Change[]>([]);
  const shown = found(rows, q, textOf);
  const roles: readonly Role[] = hasServices ? [...ROLES, "agent"] : ROLES;
  if (shown.length === 0 && draft.length === 0)
    return (
      <Empty title={q ? "Nobody matches" : hasServices ? "No service or agent" : "Nobody yet"}>
        {q
          ? "The filter hides all of them."
          : hasServices
            ? "Services act with a token; an agent is listed once it has a principal."
            : "Who signs in by a link of the command line is listed here."}
      </Empty>
    );
  return (
    <Panel
      title={hasServices ? "Services and agents" : "People and roles"}
      aside={<span className="muted hide-s">without a role, one sees own runs and threads</span>}
      flush
    >
      <Table<Principal>
        label="People and roles"
        className="cards roles"
        rows={shown}
        rowKey={(row) => row.name}
        columns={[
          { title: hasServices ? "Name" : "Person", className: "c0", cell: (row) => <Who row={row} /> },
          ...roles.map((role) => ({
            title: <span title={MEANINGS[role]}>{role}</span>,
            className: "center inline",
            cell: (row: Principal) => (
              <Box
                row={row}
                role={role}
                draft={draft}
                isAdmin={isAdmin}
                toggle={() => setDraft(toggled(draft, row, role))}
              />
            ),
          })),
          { title: "Signs in by", className: "clip signs hide-m", cell: (row) => <SignsIn row={row} /> },
          {
            title: <span className="vh">Actions</span>,
            className: "num inline",
            cell: (row) => <Actions row={row} isAdmin={isAdmin} again={again} newToken={newToken} />,
          },
        ]}
      />
      {draft.length > 0 && <Draft draft={draft} clear={() => setDraft([])} again={again} />}
    </Panel>
  );
}

function Who({ row }: { row: Principal }) {
  const more = [row.display_name, row.email].filter(Boolean).join(", ");
  return (
    <span className="row">
      <Initial name={row.name} isAgent={row.kind !== "user"} small />
      <span className="clip" title={[row.name, more].filter(Boolean).join("\n")}>
        <b className="strong">
          <bdi>{visible(row.name)}</bdi>
        </b>{" "}
        <span className="muted">
          <bdi>{visible(more)}</bdi>
        </span>
      </span>
      {row.is_me && <span className="chip">you</span>}
      {!row.active && <span className="chip warn">disabled</span>}
      {row.is_last_admin && <span className="chip">last admin</span>}
    </span>
  );
}

interface BoxProps {
  row: Principal;
  role: Role;
  draft: readonly Change[];
  isAdmin: boolean;
  toggle: () => void;
}

function Box({ row, role, draft, isAdmin, toggle }: BoxProps) {
  const zone = useZone();
  const ends = row.roles[role];
  const isChanged = draft.some((each) => each.principal === row.name && each.role === role);
  const isLast = row.is_last_admin && role === "admin";
  // The database refuses a role of agents to people.
  if (role === "agent" && row.kind === "user") return null;
  return (
    <label
      className={`box${isChanged ? " changed" : ""}`}
      title={
        isLast ? "The last admin stays: make another one first." : ends ? `until ${minute(ends, zone)}` : undefined
      }
    >
      <input
        type="checkbox"
        aria-label={`${role} for ${row.name}`}
        checked={isTicked(draft, row, role)}
        disabled={!isAdmin || isLast}
        onChange={toggle}
      />
      <span className="only-s">{role}</span>
      {ends && <Icon name="clock" small />}
    </label>
  );
}

function SignsIn({ row }: { row: Principal }) {
  const ways = [
    row.login && `login ${row.login}`,
    row.links_of && `link of ${row.links_of}`,
    Number(row.tokens) > 0 && `${row.tokens} ${row.tokens === "1" ? "token" : "tokens"}`,
  ].filter(Boolean);
  const text = ways.join(", ") || "no token";
  return (
    <span className="clip muted" title={text}>
      {text}
    </span>
  );
}

/** What the changes mean, and the button that makes all of them. */
function Draft({ draft, clear, again }: { draft: readonly Change[]; clear: () => void; again: () => void }) {
  const [days, setDays] = useState("");
  const [isSending, setSending] = useState(false);
  const hasGrants = draft.some((each) => each.granted);
  const what = `${draft.length} ${draft.length === 1 ? "change" : "changes"}`;
  const save = async () => {
    setSending(true);
    try {
      await mutate("change_roles", { changes: sent(draft), days });
      toast(`Saved ${what} of roles.`);
      clear();
    } catch (error) {
      toastProblem(error);
    }
    setSending(false);
    again();
  };
  return (
    <div className="bulk draft" role="status">
      <ul className="soft grow">
        {draft.map((each) => (
          <li key={`${each.principal} ${each.role}`}>{visible(meaning(each))}</li>
        ))}
      </ul>
      {hasGrants && (
        <label className="row">
          Ends
          <select value={days} onChange={(event) => setDays(event.target.value)}>
            {Object.entries(ENDS).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
      )}
      <button type="button" className="btn small primary" disabled={isSending} onClick={save}>
        {isSending ? "Sending" : `Save ${what}`}
      </button>
      <button type="button" className="btn small quiet" onClick={clear}>
        Discard
      </button>
    </div>
  );
}

type ActionsProps = { row: Principal } & Pick<PeopleProps, "isAdmin" | "again" | "newToken">;

function Actions({ row, isAdmin, again, newToken }: ActionsProps) {
  const [isAsking, ask] = useState(false);
  const act = async () => {
    try {
      await mutate(row.active ? "disable_principal" : "enable_principal", { name: row.name });
      toast(row.active ? `${row.name} is refused from now on.` : `${row.name} may act again.`);
    } catch (error) {
      toastProblem(error);
    }
    again();
  };
  return (
    <>
      <Menu className="btn quiet icon" label={`Actions on ${row.name}`} button={<Icon name="more" />}>
        {(close) => (
          <div className="stack tight menu-list" onClickCapture={close}>
            <Link className="btn quiet small" to="/audit" search={{ who: row.name }}>
              What it did
            </Link>
            <Link className="btn quiet small" to="/audit" search={{ object: row.name }}>
              What was changed about it
            </Link>
            {isAdmin && row.active && (
              <button type="button" className="btn quiet small" onClick={() => newToken(row.name)}>
                New token…
              </button>
            )}
            {isAdmin && (
              <button
                type="button"
                className="btn quiet small"
                disabled={row.is_last_admin}
                onClick={() => (row.active ? ask(true) : void act())}
              >
                {row.active ? "Disable…" : "Enable"}
              </button>
            )}
          </div>
        )}
      </Menu>
      {isAsking && (
        <Confirm
          title={`Disable ${row.name}?`}
          action={`Disable ${row.name}`}
          keep="Keep it active"
          danger
          onConfirm={act}
          onClose={() => ask(false)}
        >
          <p>
            {row.name}, its login and its tokens are refused from the next transaction on. Roles and tokens stay: an
            admin can enable it again. What it did stays, and its runs go on.
          </p>
        </Confirm>
      )}
    </>
  );
}
