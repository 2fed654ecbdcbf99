/** A decision about many calls: its whole effect first, then each by its own digest, in a transaction of its own. */
import { type ReactNode, useState } from "react";

import { number } from "../data/format";
import { decideMany, type Decision } from "../data/decide-many";
import { alone, sums } from "../data/queue";
import { type ApprovalDetail, type ApprovalRow, useApprovalsRead } from "../data/approvals";
import { useAway } from "../frame/connection";
import { READ } from "../parts/decide";
import { Shown } from "../parts/call";
import { Problem } from "../parts/notice";
import { Of } from "../parts/of";
import { Panel, Skeleton } from "../parts/panel";
import { type Column, Table } from "../parts/table";
import { toast } from "../parts/toast";
import { EFFECTS } from "./approvals-call";

interface ManyProps {
  rows: readonly ApprovalRow[];
  clear: () => void;
  select: (ids: readonly string[], on: boolean) => void;
  /** Keep these calls on screen while they are decided. */
  hold: (on: boolean) => void;
  /** Whether it is what a phone shows, in place of the list. */
  isReading: boolean;
  back: () => void;
}

export function Many({ rows, clear, select, hold, isReading, back }: ManyProps): ReactNode {
  const { rows: read, error, again } = useApprovalsRead(rows.map((row) => row.id));
  const leave = (id: string) => select([id], false);
  const out = read?.flatMap((row) => [[row, alone(row)] as const].filter(([, why]) => why)) ?? [];
  const part = read?.filter((row) => !alone(row)) ?? [];
  return (
    <section aria-label="Selected calls" className={`stack approve${isReading ? "" : " hide-s"}`}>
      <div className="head">
        <h2 className="big">{number(rows.length)} calls are selected</h2>
        <div className="actions">
          <button type="button" className="btn quiet only-s" onClick={back}>
            Back to the list
          </button>
          <button type="button" className="btn quiet" onClick={clear}>
            Select none <kbd>Esc</kbd>
          </button>
        </div>
      </div>
      {error && !read ? (
        <Problem error={error} again={again} />
      ) : !read ? (
        <Skeleton rows={6} label="The calls are loading" />
      ) : (
        <>
          {out.length > 0 && (
            <Panel title={`${number(out.length)} ${out.length === 1 ? "is" : "are"} decided alone`} flush>
              <Table<readonly [ApprovalDetail, string | undefined]>
                label="Calls that are decided alone"
                rows={out}
                rowKey={([row]) => row.id}
                columns={[
                  { title: "Call", className: "mono nowrap inline", cell: ([row]) => row.tool },
                  { title: "Of", className: "inline", cell: ([row]) => <Of run={row} quoted /> },
                  { title: "Why", className: "full", cell: ([, why]) => why },
                  { title: "", className: "num", cell: ([row]) => <Leave row={row} leave={leave} /> },
                ]}
              />
            </Panel>
          )}
          {part.length > 0 && (
            <>
              <Effect rows={part} />
              {[...new Set(part.map((row) => row.tool))].map((tool) => (
                <Calls key={tool} tool={tool} rows={part.filter((row) => row.tool === tool)} leave={leave} />
              ))}
              <DecideMany rows={part} again={again} hold={hold} />
            </>
          )}
        </>
      )}
    </section>
  );
}

function Leave({ row, leave }: { row: ApprovalDetail; leave: (id: string) => void }) {
  return (
    <button
      type="button"
      className="btn small quiet"
      aria-label={`Leave it out: the call of run ${row.run_id}`}
      onClick={() => leave(row.id)}
    >
      Leave it out
    </button>
  );
}

/** What all of them do: functions, roles, effects, sums. */
function Effect({ rows }: { rows: readonly ApprovalDetail[] }) {
  const each = (of: (row: ApprovalDetail) => string | null) =>
    [...new Set(rows.map(of).filter((text): text is string => Boolean(text)))].join(", ");
  const isOneTool = new Set(rows.map((row) => row.tool)).size === 1;
  const medium = rows.filter((row) => row.risk === "medium").length;
  const facts: [string, ReactNode][] = [
    ["Calls", number(rows.length)],
    ...(isOneTool ? sums(rows) : []).map(([name, total]): [string, ReactNode] => [
      `Sum of ${name}`,
      <code key={name}>{total}</code>,
    ]),
    ["Functions", <code key="f">{each((row) => row.function ?? row.tool)}</code>],
    ["Run as", <code key="r">{each((row) => row.run_as)}</code>],
    ["Effect", each((row) => (row.effect ? (EFFECTS[row.effect] ?? row.effect) : null))],
    ["Risk", medium ? `${number(medium)} of them medium, the others low` : "low"],
    ["Rows", each((row) => row.relation)],
    [
      "Then",
      `${number(new Set(rows.map((row) => row.run_id)).size)} runs go on, each with at least one call of its model`,
    ],
  ];
  return (
    <Panel title="What a decision does">
      <dl className="kv">
        {facts.map(([name, value]) =>
          value === "" ? null : (
            <div className="contents" key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
        )}
      </dl>
    </Panel>
  );
}

/** The calls of one tool, with a column for each argument, in full. */
function Calls({ tool, rows, leave }: { tool: string; rows: readonly ApprovalDetail[]; leave: (id: string) => void }) {
  const names = [...new Set(rows.flatMap((row) => row.shown.map((each) => each.name)))];
  const columns: Column<ApprovalDetail>[] = names.map((name) => {
    const isNumber = rows.every((row) => (row.shown.find((each) => each.name === name)?.kind ?? "number") === "number");
    return {
      title: name,
      label: name,
      className: isNumber ? "num mono" : "mono full",
      cell: (row) => {
        const given = row.shown.find((each) => each.name === name);
        return given ? <Shown {...given} /> : <span className="muted">not given</span>;
      },
    };
  });
  return (
    <Panel title={<code>{tool}</code>} aside={<span className="muted">all arguments, in full</span>} flush>
      <Table<ApprovalDetail>
        label={`Calls of ${tool}`}
        rows={rows}
        rowKey={(row) => row.id}
        columns={[
          ...columns,
          { title: "Risk", label: "Risk", cell: (row) => row.risk },
          { title: "Of", label: "Of", className: "c0", cell: (row) => <Of run={row} quoted /> },
          { title: "", className: "num", cell: (row) => <Leave row={row} leave={leave} /> },
        ]}
      />
    </Panel>
  );
}

interface DecideManyProps {
  rows: readonly ApprovalDetail[];
  again: () => void;
  hold: (on: boolean) => void;
}

function DecideMany({ rows, again, hold }: DecideManyProps) {
  const [reason, setReason] = useState("");
  const [isMissing, setMissing] = useState(false);
  const [isSending, setSending] = useState(false);
  const [since] = useState(Date.now);
  const isHeld = useAway() || isSending;
  const words = `${number(rows.length)} ${rows.length === 1 ? "call" : "calls"}`;
  const send = async (decision: Decision) => {
    if (isSending) return;
    if (Date.now() - since < READ || document.visibilityState !== "visible") {
      toast("Nothing was sent: these calls came on screen just now. Read them first.", { state: "failed" });
      return;
    }
    if (decision === "reject" && !reason.trim()) return setMissing(true);
    setSending(true);
    hold(true);
    await decideMany(decision, rows, reason.trim());
    setSending(false);
    again();
    hold(false);
  };
  return (
    <form className="decide" aria-label="Decision about all" onSubmit={(event) => event.preventDefault()}>
      <label className="field">
        Reason (required to reject; each model reads it)
        <input
          type="text"
          value={reason}
          maxLength={2000}
          aria-invalid={isMissing || undefined}
          onChange={(event) => {
            setReason(event.target.value);
            setMissing(false);
          }}
        />
      </label>
      {isMissing && (
        <p className="missing" role="alert">
          A rejection needs a reason: the models read it and can try something else.
        </p>
      )}
      <div className="row">
        <button className="btn primary" type="button" disabled={isHeld} onClick={() => void send("approve")}>
          {isSending ? "Sending" : `Approve ${words}`}
        </button>
        <button className="btn danger" type="button" disabled={isHeld} onClick={() => void send("reject")}>
          Reject {words}
        </button>
        <span className="end muted hide-s">
          Each is decided by its own digest, in a transaction of its own. What changed meanwhile is left out.
        </span>
      </div>
    </form>
  );
}
