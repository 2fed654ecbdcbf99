/** Tokens and sessions: what they are for, until when, and the button that ends one. */
import { useState } from "react";

import { found, SCOPES, type Token } from "../data/access";
import { number } from "../data/format";
import { mutate } from "../data/mutate";
import { useSession } from "../data/session";
import { visible } from "../data/visible";
import { Confirm } from "../parts/confirm";
import { Empty, Panel } from "../parts/panel";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";

interface TokensProps {
  rows: readonly Token[];
  q: string;
  isAdmin: boolean;
  again: () => void;
}

const textOf = (row: Token) => `${row.label} ${row.principal} ${row.purpose} ${row.id} ${row.scopes.join(" ")}`;

export function Tokens({ rows, q, isAdmin, again }: TokensProps) {
  const [hasEnded, showEnded] = useState(false);
  const ended = rows.filter((row) => row.state !== "valid").length;
  const shown = found(rows, q, textOf).filter((row) => hasEnded || row.state === "valid");
  const toggle = ended > 0 && (
    <label className="check">
      <input type="checkbox" checked={hasEnded} onChange={(event) => showEnded(event.target.checked)} />
      Show {number(ended)} that ended
    </label>
  );
  if (shown.length === 0)
    return (
      <Empty title={q ? "No token matches" : isAdmin ? "No token can be used" : "You have no token"} action={toggle}>
        A token stands in for a principal, in programs and in sessions of this page.
      </Empty>
    );
  return (
    <Panel
      title="Tokens and sessions"
      end={
        <>
          {toggle}
          {isAdmin && rows.some((row) => row.purpose === "session" && row.state === "valid") && (
            <EndSessions rows={rows} again={again} />
          )}
        </>
      }
      flush
    >
      <Table<Token>
        label="Tokens and sessions"
        rows={shown}
        rowKey={(row) => row.id}
        columns={[
          {
            title: "Token",
            className: "c0",
            cell: (row) => (
              <span className="clip" title={`${row.label}\n${row.id}`}>
                <b className="strong">{visible(row.label) || row.purpose}</b>{" "}
                <code className="muted">{row.id.slice(0, 8)}</code>
              </span>
            ),
          },
          {
            title: "For",
            className: "clip signs",
            cell: (row) => (
              <span className="clip" title={row.principal}>
                <bdi>{visible(row.principal)}</bdi>
              </span>
            ),
          },
          { title: "May", className: "inline", cell: (row) => <May scopes={row.scopes} /> },
          {
            title: "Created",
            className: "num inline nowrap hide-m",
            label: "Created",
            cell: (row) => <Time at={row.created_at} />,
          },
          { title: "Expires", className: "num inline nowrap", label: "Expires", cell: (row) => <Ends row={row} /> },
          {
            title: <span className="vh">Actions</span>,
            className: "num inline",
            cell: (row) => row.state === "valid" && <Revoke row={row} again={again} />,
          },
        ]}
      />
    </Panel>
  );
}

function May({ scopes }: { scopes: readonly string[] }) {
  if (scopes.length === 0) return <span className="muted nowrap">all of its roles</span>;
  return (
    <span className="row wrap chips">
      {scopes.map((each) => (
        <span className="chip" key={each} title={SCOPES[each as keyof typeof SCOPES]}>
          {each}
        </span>
      ))}
    </span>
  );
}

function Ends({ row }: { row: Token }) {
  if (row.state === "revoked")
    return (
      <>
        <State state="cancelled" word="revoked" bare /> <Time at={row.revoked_at} />
      </>
    );
  return row.expires_at === null ? <span className="muted">never</span> : <Time at={row.expires_at} />;
}

/** For a laptop that was lost: who knows which session it had? */
function EndSessions({ rows, again }: Pick<TokensProps, "rows" | "again">) {
  const [isAsking, ask] = useState(false);
  const tenant = useSession()?.tenant ?? "";
  const count = rows.filter((row) => row.purpose === "session" && row.state === "valid").length;
  const what = count === 1 ? "1 session" : `${number(count)} sessions`;
  const end = async () => {
    try {
      await mutate("end_sessions", { tenant });
      toast("All sessions have ended.");
    } catch (error) {
      toastProblem(error);
    }
    again();
  };
  return (
    <>
      <button type="button" className="btn small" onClick={() => ask(true)}>
        End all sessions…
      </button>
      {isAsking && (
        <Confirm
          title={`End ${what}?`}
          action={`End ${what}`}
          keep="Keep them"
          danger
          onConfirm={end}
          onClose={() => ask(false)}
        >
          <p>
            Yours ends, too. Links that nobody has used yet cannot be used any more. Tokens of programs are kept: revoke
            them one by one.
          </p>
        </Confirm>
      )}
    </>
  );
}

function Revoke({ row, again }: { row: Token; again: () => void }) {
  const [isAsking, ask] = useState(false);
  const name = row.label || `the ${row.purpose} ${row.id.slice(0, 8)}`;
  const revoke = async () => {
    try {
      await mutate("revoke_token", { id: row.id });
      toast(`Revoked ${name}.`);
    } catch (error) {
      toastProblem(error);
    }
    again();
  };
  return (
    <>
      <button
        type="button"
        className="btn small"
        aria-label={`Revoke ${name} of ${row.principal}`}
        onClick={() => ask(true)}
      >
        Revoke…
      </button>
      {isAsking && (
        <Confirm
          title={`Revoke ${name} of ${row.principal}?`}
          action="Revoke it"
          keep="Keep it"
          danger
          onConfirm={revoke}
          onClose={() => ask(false)}
        >
          <p>It is refused from its next transaction on, and cannot be used again. A session of it ends.</p>
        </Confirm>
      )}
    </>
  );
}
