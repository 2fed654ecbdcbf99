/** One memory: a line; opened, its value, where it is from, what it replaced, and what can be done. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { Memory, MemoryRow } from "../data/memory";
import { number } from "../data/format";
import { mutate } from "../data/mutate";
import { useQueryOnce } from "../data/queries";
import { visible } from "../data/visible";
import { Confirm } from "../parts/confirm";
import { Copy } from "../parts/copy";
import { Problem } from "../parts/notice";
import { Opener } from "../parts/opener";
import { Skeleton } from "../parts/panel";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";
import { CorrectMemory } from "./memory-edit";

const STATES: Record<MemoryRow["state"], [state: string, word: string]> = {
  live: ["active", "recalled"],
  disputed: ["review", "disputed"],
  replaced: ["skipped", "replaced"],
  withdrawn: ["cancelled", "withdrawn"],
  expired: ["expired", "expired"],
};

function StateOf({ state }: Pick<MemoryRow, "state">) {
  const [look, word] = STATES[state];
  return <State state={look} word={word} bare />;
}

interface EntryProps {
  row: MemoryRow;
  isOpen: boolean;
  toggle: (id: string) => void;
  again: () => void;
}

export function MemoryEntry({ row, isOpen, toggle, again }: EntryProps) {
  return (
    <details className="grp mem" open={isOpen}>
      <Opener
        toggle={() => {
          toggle(row.id);
        }}
      >
        <span className="muted nowrap">
          <Time at={row.created_at} />
        </span>
        <span className="chip agent clip" title={row.agent}>
          {visible(row.agent)}
        </span>
        <span className="nowrap">
          <StateOf state={row.state} />
        </span>
        <span className="clip" dir="auto">
          {row.key && <b className="strong mono">{visible(row.key)}</b>} {visible(row.text)}
        </span>
        <span className="soft clip">
          {row.trust === "trusted" ? "a person" : "an agent"}
          {row.about && ` about ${visible(row.about)}`}
        </span>
      </Opener>
      {isOpen && <Whole row={row} again={again} />}
    </details>
  );
}

function Whole({ row, again }: { row: MemoryRow; again: () => void }) {
  const { rows, error, again: read } = useQueryOnce<Memory>("memory", { id: row.id });
  if (error && !rows) return <Problem error={error} again={read} />;
  if (rows === null) return <Skeleton rows={3} />;
  const [memory, ...replaced] = rows;
  if (!memory)
    return (
      <div className="gbody">
        <p className="soft">It was deleted meanwhile.</p>
      </div>
    );
  const isRecalled = memory.state === "live" || memory.state === "disputed";
  return (
    <div className="gbody">
      <div className="row">
        <pre tabIndex={0} className="code wrap grow" dir="auto" aria-label="Value">
          {visible(memory.value)}
        </pre>
        <Copy text={memory.value} />
      </div>
      <Facts row={row} memory={memory} />
      {replaced.length > 0 && (
        <section aria-label="What it replaced">
          <h3>Replaced</h3>
          <ul className="stack tight">
            {replaced.map((each) => (
              <li key={each.id} className="wrapped">
                <span className="muted">
                  <Time at={each.created_at} /> {visible(each.created_by)}:
                </span>{" "}
                <span dir="auto">{visible(each.value)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {memory.may_change && <Actions row={row} memory={memory} isRecalled={isRecalled} again={again} />}
    </div>
  );
}

function Facts({ row, memory }: { row: MemoryRow; memory: Memory }) {
  return (
    <dl className="kv">
      <dt>Stored by</dt>
      <dd>
        <bdi>{visible(memory.created_by)}</bdi>{" "}
        <span className="muted">
          {memory.trust === "trusted" ? "trusted" : "untrusted: derived from what others wrote"}
        </span>
      </dd>
      <dt>Learnt from</dt>
      <dd>
        {row.run_id ? (
          <Link to="/runs/$run" params={{ run: row.run_id }}>
            run {row.run_id}
          </Link>
        ) : (
          "no run"
        )}
        {row.thread_id && (
          <>
            , recalled only in{" "}
            <Link to="/threads/$thread" params={{ thread: row.thread_id }}>
              {row.thread ? visible(row.thread) : "its thread"}
            </Link>
          </>
        )}
      </dd>
      <dt>Kind</dt>
      <dd>
        {row.kind}, importance {memory.importance}
      </dd>
      <dt>Recalled</dt>
      <dd>
        {number(memory.access_count)} {memory.access_count === "1" ? "time" : "times"}
        {memory.accessed_at && (
          <>
            , last <Time at={memory.accessed_at} />
          </>
        )}
      </dd>
      {memory.expires_at && (
        <>
          <dt>Expires</dt>
          <dd>
            <Time at={memory.expires_at} />
          </dd>
        </>
      )}
      {memory.retracted_at && (
        <>
          <dt>Withdrawn</dt>
          <dd>
            <Time at={memory.retracted_at} />
          </dd>
        </>
      )}
      <dt>Found by</dt>
      <dd>{memory.embedding_model ? `words and meaning (${memory.embedding_model})` : "words"}</dd>
    </dl>
  );
}

interface ActionsProps {
  row: MemoryRow;
  memory: Memory;
  isRecalled: boolean;
  again: () => void;
}

function Actions({ row, memory, isRecalled, again }: ActionsProps) {
  const [isAsking, ask] = useState<"correct" | "forget" | null>(null);
  const act = async (name: string, values: object, said: string) => {
    try {
      await mutate(name, { id: row.id, ...values });
      toast(said);
    } catch (problem) {
      toastProblem(problem);
    }
    again();
  };
  const isDisputed = memory.state === "disputed";
  return (
    <div className="row wrap">
      {isRecalled && (
        <>
          <button type="button" className="btn small" onClick={() => ask("correct")}>
            Correct…
          </button>
          <button
            type="button"
            className="btn small"
            onClick={() =>
              void act(
                "dispute_memory",
                { disputed: !isDisputed },
                isDisputed ? "No longer disputed." : "Disputed: its score is halved, and the model sees the mark.",
              )
            }
          >
            {isDisputed ? "Not disputed" : "Dispute"}
          </button>
          <button
            type="button"
            className="btn small"
            onClick={() => void act("retract_memory", {}, "Withdrawn: it is no longer recalled.")}
          >
            Withdraw
          </button>
        </>
      )}
      <button type="button" className="btn small danger" onClick={() => ask("forget")}>
        Delete…
      </button>
      {isAsking === "correct" && <CorrectMemory memory={memory} again={again} onClose={() => ask(null)} />}
      {isAsking === "forget" && (
        <Confirm
          title="Delete this memory?"
          action="Delete it"
          keep="Keep it"
          danger
          onConfirm={() => act("forget_memory", {}, "Deleted, with what it replaced.")}
          onClose={() => ask(null)}
        >
          <p>It is deleted with all that it replaced, and cannot be brought back.</p>
        </Confirm>
      )}
    </div>
  );
}
