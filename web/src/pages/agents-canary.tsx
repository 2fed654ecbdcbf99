/** Both versions of an attachment that has a canary or a shadow, side by side. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { VersionFigures } from "../data/agents";
import { money, number } from "../data/format";
import { mutate } from "../data/mutate";
import { useQueryOnce } from "../data/queries";
import { Confirm } from "../parts/confirm";
import { Sql } from "../parts/sql";
import { Table } from "../parts/table";
import { toast, toastProblem } from "../parts/toast";

type Asked = "promote" | "end" | null;

const share = (value: string | number | null) =>
  value === null ? <span className="muted">–</span> : `${+(100 * Number(value)).toFixed(1)} %`;

/** With what ends it; without one, the command that begins it. */
export function Canary({
  attachment,
  mayChange,
  again,
}: {
  attachment: string;
  mayChange: boolean;
  again: () => void;
}) {
  const { rows, again: readAgain } = useQueryOnce<VersionFigures>("canary", { attachment });
  const [isAsking, ask] = useState<Asked>(null);
  const [reason, setReason] = useState("");
  if (!rows) return null;
  const other = rows.find((row) => row.side !== "baseline");
  const name = attachment.replaceAll("'", "''");
  if (!other)
    return (
      <section className="pad stack tight" aria-label="Canary">
        <h3>Canary</h3>
        <p className="muted">
          No other version is compared with this one. One that runs beside it, of which nothing is kept, begins with{" "}
          <code>
            <Sql text={`select agent.shadow('${name}', 'model=NAME')`} />
          </code>
          , one for a tenth of the rows with{" "}
          <code>
            <Sql text={`select agent.canary('${name}', 'model=NAME', share => 0.1)`} />
          </code>
          .
        </p>
      </section>
    );
  const word = other.shadow ? "shadow" : "canary";
  const act = async (what: "promote_canary" | "roll_back_canary") => {
    try {
      await mutate(what, what === "promote_canary" ? { name: attachment } : { name: attachment, reason });
      toast(
        what === "promote_canary"
          ? `Promoted version ${other.version} of ${attachment}.`
          : `Ended the ${word} of ${attachment}.`,
      );
    } catch (error) {
      toastProblem(error);
    }
    readAgain();
    again();
  };
  return (
    <section className="pad stack tight" aria-label="Canary">
      <div className="row wrap">
        <h3>{other.shadow ? "Shadow" : "Canary"}</h3>
        <span className="grow" />
        {mayChange && (
          <>
            <button type="button" className="btn small" onClick={() => ask("promote")}>
              Promote v{other.version}…
            </button>
            <button type="button" className="btn small danger" onClick={() => ask("end")}>
              {other.shadow ? "End" : "Roll back"}…
            </button>
          </>
        )}
      </div>
      <p className="muted">
        {other.shadow
          ? `Version ${other.version} is tried on ${+(100 * other.share).toFixed(1)} % of the rows, after their runs, and nothing of it is kept: ` +
            `${number(other.same)} same, ${number(other.other)} other, ${number(other.failed)} failed, ${number(other.waiting)} waiting.`
          : `Version ${other.version} has ${+(100 * other.share).toFixed(1)} % of the rows.`}{" "}
        Begun by {other.begun_by}.{" "}
        {other.rollback_if && !other.shadow && (
          <>
            Rolled back if <code>{other.rollback_if}</code>, from {number(other.min_runs)} runs on.
          </>
        )}
      </p>
      <Table<VersionFigures>
        label="Versions compared"
        rows={rows}
        rowKey={(row) => row.side}
        columns={[
          {
            title: "Version",
            className: "c0",
            cell: (row) => (
              <>
                <b>v{row.version}</b> <span className="muted">{row.side}</span>
              </>
            ),
          },
          { title: "Ended", label: "Ended", className: "num inline", cell: (row) => number(row.ended) },
          { title: "Failures", label: "Failures", className: "num inline", cell: (row) => share(row.failures) },
          {
            title: "Corrections",
            label: "Corrections",
            className: "num inline",
            cell: (row) => share(row.corrections),
          },
          {
            title: "Cost",
            label: "Cost",
            className: "num inline",
            cell: (row) => (row.cost === null ? <span className="muted">–</span> : money(row.cost)),
          },
          {
            title: other.shadow ? "Model time" : "Time",
            label: other.shadow ? "Model time" : "Time",
            className: "num inline",
            cell: (row) => (row.latency === null ? <span className="muted">–</span> : `${Number(row.latency)} s`),
          },
          {
            title: "Runs",
            label: other.shadow ? "Runs; those that differ" : "Runs",
            className: "num",
            cell: (row) => (
              <span className="row wrap">
                {row.latest.length === 0 && <span className="muted">–</span>}
                {row.latest.map((run) => (
                  <Link key={run} to="/runs/$run" params={{ run }} aria-label={`run ${run}`}>
                    {run}
                  </Link>
                ))}
              </span>
            ),
          },
        ]}
      />
      {isAsking === "promote" && (
        <Confirm
          title={`Promote version ${other.version}?`}
          action={`Promote v${other.version}`}
          onConfirm={() => act("promote_canary")}
          onClose={() => ask(null)}
        >
          <p>
            All changes of {attachment} get version {other.version}, and the {word} ends.
          </p>
        </Confirm>
      )}
      {isAsking === "end" && (
        <Confirm
          title={`End the ${word} of ${attachment}?`}
          action={other.shadow ? "End the shadow" : "Roll back"}
          danger
          onConfirm={() => act("roll_back_canary")}
          onClose={() => ask(null)}
        >
          <p>All changes get the version before it.</p>
          <label className="stack tight">
            Reason
            <input type="text" maxLength={1000} value={reason} onChange={(event) => setReason(event.target.value)} />
          </label>
        </Confirm>
      )}
    </section>
  );
}
