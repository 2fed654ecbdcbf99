/** What a decision rests on: the arguments of a call, its row, what is bound. */
import { type ReactNode, useState } from "react";

import { indented } from "../data/exact";
import { minute, tableName } from "../data/format";
import { useQueryOnce } from "../data/queries";
import type { ApprovalDetail, ShownArgument } from "../data/approvals";
import { visible } from "../data/visible";
import { useZone } from "../data/zone";
import { LONG, Shown } from "../parts/call";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Panel, Skeleton } from "../parts/panel";
import { Blank, Cell } from "../parts/rowdiff";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import type { RowSeen } from "./runs-list";

/** Those that are read at a glance before those that are scrolled through. */
export function shortFirst(args: readonly ShownArgument[]): readonly ShownArgument[] {
  return [...args].sort((a, b) => Number(a.text.length > LONG) - Number(b.text.length > LONG));
}

export function Arguments({ row }: { row: ApprovalDetail }) {
  return (
    <Panel
      title="Arguments"
      aside={<span className="muted">all of them, in full</span>}
      end={<Copy text={row.arguments_text} label="Copy as JSON" />}
      flush
    >
      {row.shown.length === 0 ? (
        <p className="note muted">The call has no arguments.</p>
      ) : (
        <Table
          label="Arguments"
          className=""
          rows={shortFirst(row.shown)}
          rowKey={(arg) => arg.name}
          columns={[
            { title: "Name", className: "mono", cell: (arg) => visible(arg.name) },
            { title: "Type", className: "mono muted", cell: (arg) => row.types?.[arg.name] ?? arg.kind },
            {
              title: "Value",
              className: "mono strong full",
              cell: (arg) => (
                <>
                  {arg.text.length > LONG && (arg.kind === "object" || arg.kind === "array") ? (
                    visible(indented(arg.text))
                  ) : arg.kind !== "string" ? (
                    <Shown {...arg} />
                  ) : arg.text === "" ? (
                    <Blank />
                  ) : (
                    visible(arg.text)
                  )}
                  {row.edited &&
                    arg.bound === null &&
                    JSON.stringify(row.arguments[arg.name]) !== JSON.stringify(row.edited[arg.name]) && (
                      <span className="muted"> was {visible(JSON.stringify(row.arguments[arg.name]))}</span>
                    )}
                </>
              ),
            },
            {
              title: "From",
              cell: (arg) =>
                arg.bound !== null ? (
                  <>
                    <Icon name="lock" small /> bound to <code>new.{arg.bound}</code>; the model cannot change it
                  </>
                ) : (
                  <>
                    <Icon name="agent" small /> chosen by the model
                  </>
                ),
            },
          ]}
        />
      )}
    </Panel>
  );
}

export function TheRow({ row }: { row: ApprovalDetail }) {
  const [which, show] = useState<"change" | "now">("change");
  const now = useQueryOnce<RowSeen>("row_now", { run: row.run_id }, { skip: which === "change" });
  const then = row.content ?? {};
  const current = now.rows?.[0]?.row;
  const shown = which === "change" ? then : (current ?? {});
  return (
    <Panel
      title="The row"
      aside={
        <span className="mono muted">
          {tableName(row.relation ?? "")} {row.key}
        </span>
      }
      end={
        <span className="toggle" role="group" aria-label="Which state of the row">
          <button type="button" aria-pressed={which === "change"} onClick={() => show("change")}>
            at the change
          </button>
          <button type="button" aria-pressed={which === "now"} onClick={() => show("now")}>
            newest
          </button>
        </span>
      }
      foot="Text in a row is data from outside. It cannot approve anything."
      flush
    >
      {which === "now" && !now.rows && !now.error ? (
        <Skeleton />
      ) : which === "now" && !current ? (
        <p className="note muted">{now.error?.message ?? "No later content of this row is known."}</p>
      ) : Object.keys(shown).length === 0 ? (
        <p className="note muted">This run has no row.</p>
      ) : (
        <table className="rowdiff">
          <tbody>
            {Object.entries(shown).map(([name, value]) => {
              const isChanged = which === "now" && name in then && JSON.stringify(then[name]) !== JSON.stringify(value);
              return (
                <tr key={name}>
                  <td>{name}</td>
                  <td className={isChanged ? "now" : undefined}>
                    {isChanged && "+ "}
                    <Cell value={value} /> {isChanged && <span className="muted">changed since</span>}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

export const EFFECTS: Record<string, string> = {
  read: "reads only",
  transactional: "transactional: commits with its step",
  idempotent: "outside the database, repeatable with its key",
  unsafe: "outside the database, cannot be taken back",
};

export function Binds({ row }: { row: ApprovalDetail }) {
  const zone = useZone();
  const facts: [string, ReactNode, boolean?][] = [
    [
      "Digest",
      <>
        sha256 {shortDigest(row.digest)} <Copy text={row.digest} />
      </>,
      true,
    ],
    ["Runs as", row.run_as, true],
    ["Effect", row.effect && (EFFECTS[row.effect] ?? row.effect)],
    ["Function", row.function && <code>{row.function}</code>],
    ["Risk", row.risk ?? "not set: counts as critical"],
    ["Asked", <Time at={row.asked_at} />],
    ["Expires", <Time at={row.expires_at} text={minute(row.expires_at, zone)} />],
    ["Four eyes", row.four_eyes && row.requested_by.length ? `${row.requested_by.join(", ")} cannot decide` : null],
  ];
  return (
    <Panel title="What the decision binds">
      <dl className="kv">
        {facts.map(([name, value, isMono]) =>
          value === null || value === "" ? null : (
            <div className="contents" key={name}>
              <dt>{name}</dt>
              <dd className={isMono ? "mono" : undefined}>{value}</dd>
            </div>
          ),
        )}
      </dl>
    </Panel>
  );
}

function shortDigest(digest: string): string {
  const hex = digest.replace(/^sha256:/, "");
  return hex.length > 20 ? `${hex.slice(0, 4)} ${hex.slice(4, 8)} ${hex.slice(8, 12)} … ${hex.slice(-4)}` : hex;
}
