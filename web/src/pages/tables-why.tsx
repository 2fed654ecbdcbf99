/** Why a row has runs, or none; and why rows are not shown. */
import { useState } from "react";

import { tableName } from "../data/format";
import { Refused, request } from "../data/request";
import { Menu } from "../frame/menu";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Problem } from "../parts/notice";
import { Told } from "../parts/told";

export interface TableRow {
  relation: string;
  agents: string;
  rows: string;
  is_broken: boolean;
  attachments: number;
  /** Why the rows are not shown; null: they are. */
  refusal: "login" | "grant" | "policy" | null;
  login: string | null;
  is_explained: boolean;
  quoted: string;
}

interface Reason {
  rule: string;
  text: string;
  certain: boolean;
}

/** What `walagent why` says. */
interface Explanation {
  present: boolean | null;
  verdicts: { attachment: string; verdict: "matched" | "no run"; reasons: Reason[] }[];
  reasons: Reason[];
}

/** A button that says why a row has runs, or none; asked when it is opened. */
export function Why({ relation, row }: { relation: string; row: string }) {
  const [found, setFound] = useState<Explanation | Refused | null>(null);
  const ask = () => {
    setFound(null);
    request<Explanation>("GET", `v1/why?${new URLSearchParams({ relation, key: row })}`).then(
      setFound,
      (error: unknown) => {
        if (!(error instanceof Refused)) throw error;
        setFound(error);
      },
    );
  };
  return (
    <Menu className="btn quiet small" label={`Why row ${row} has runs, or none`} button="Why" onOpen={ask}>
      {() => (
        <div className="body stack tight reasons" role="status">
          <b className="strong mono">
            {tableName(relation)} {row}
          </b>
          {found === null ? (
            <span className="muted">Reading the row, its runs and the attachments</span>
          ) : found instanceof Refused ? (
            <Problem error={found} />
          ) : (
            <Reasons found={found} />
          )}
        </div>
      )}
    </Menu>
  );
}

function Reasons({ found }: { found: Explanation }) {
  return (
    <>
      {found.present === false && (
        <p className="soft">The row does not exist now, or the roles of the agents cannot see it.</p>
      )}
      {found.verdicts.map((each) => (
        <section key={each.attachment} aria-label={each.attachment}>
          <p>
            <code>{each.attachment}</code>{" "}
            <span className={each.verdict === "matched" ? "strong" : "muted"}>{each.verdict}</span>
          </p>
          <List reasons={each.reasons} />
        </section>
      ))}
      {found.reasons.length > 0 && (
        <section aria-label="Reader">
          <p>Reader</p>
          <List reasons={found.reasons} />
        </section>
      )}
    </>
  );
}

function List({ reasons }: { reasons: Reason[] }) {
  return (
    <ul className="soft">
      {reasons.map((each) => (
        <li key={each.text}>
          {!each.certain && "maybe: "}
          <Told text={each.text} />
        </li>
      ))}
    </ul>
  );
}

/** Why rows are not shown, and what shows them. */
export function Unreadable({ table }: { table: TableRow }) {
  const { quoted, login, refusal } = table;
  const grant = `grant select on ${quoted} to "${login ?? ""}";`;
  return (
    <section className="pad stack tight" aria-label="Not shown">
      <div className="row">
        <Icon name="lock" />
        <b className="strong">You may read the runs of this table, not its rows.</b>
      </div>
      {refusal === "login" && (
        <p className="soft">
          Your principal has no login whose privileges decide what it can read: column login of agent.principal.
        </p>
      )}
      {refusal === "grant" && (
        <>
          <p className="soft">
            Rows are shown to logins that can read the table and its primary key. The owner of the table can grant it:
          </p>
          <div className="row">
            <pre tabIndex={0} className="code grow">
              {grant}
            </pre>
            <Copy text={grant} />
          </div>
        </>
      )}
      {refusal === "policy" && (
        <p className="soft">
          The table has row-level security, which cannot judge rows of the past. They are shown to logins that it does
          not apply to, and <code>{login}</code> is not one of those.
        </p>
      )}
    </section>
  );
}
