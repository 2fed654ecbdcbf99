/** The caller's own questions, newest first. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { type Answer, type QuestionRow, useQuestions } from "../data/questions";
import { Panel } from "../parts/panel";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { STATUS } from "./ask-answer";

const FEW = 8; // questions

/** The caller's own questions. */
export function Earlier({ opened, shown }: { opened: string | undefined; shown: readonly Answer[] }) {
  const { rows } = useQuestions();
  const [isAll, showAll] = useState(false);
  const runs = new Set(shown.map((each) => String(each.run)));
  const earlier = rows.filter((row) => opened || !runs.has(row.run_id ?? ""));
  if (earlier.length === 0) return null;
  return (
    <Panel
      title="Your questions"
      id="questions"
      foot={
        !isAll && earlier.length > FEW ? (
          <button className="btn quiet small" type="button" onClick={() => showAll(true)}>
            {earlier.length - FEW} more
          </button>
        ) : undefined
      }
      flush
    >
      <Table<QuestionRow>
        label="Your questions"
        rows={isAll ? earlier : earlier.slice(0, FEW)}
        rowKey={(row) => row.id}
        columns={[
          {
            title: "Question",
            className: "c0",
            cell: (row) => (
              <Link
                className="plain clip"
                to="/ask"
                search={{ question: row.id }}
                aria-current={row.id === opened || undefined}
              >
                {row.text} <span className="muted">{row.answer ?? row.reason}</span>
              </Link>
            ),
          },
          { title: "State", className: "inline nowrap", cell: (row) => <QuestionState row={row} /> },
          { title: "Asked", label: "Asked", className: "num nowrap inline", cell: (row) => <Time at={row.asked_at} /> },
        ]}
      />
    </Panel>
  );
}

function QuestionState({ row }: { row: QuestionRow }) {
  if (row.status && row.status in STATUS) {
    const [state, word] = STATUS[row.status];
    return <State state={state} word={word} />;
  }
  return <State state={row.state ?? "cancelled"} />;
}
