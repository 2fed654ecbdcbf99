/** Tables with agents: their rows as runs saw them last, each with its runs; and why. */
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode } from "react";

import { textOf } from "../data/exact";
import { count, shellWord, tableName } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { badge, type RunState } from "../data/runs";
import { useTitle } from "../frame/title";
import { FilterBar } from "../parts/filterbar";
import { Icon } from "../parts/icon";
import { Problem } from "../parts/notice";
import { EmptyBody, Skeleton } from "../parts/panel";
import { Cell } from "../parts/rowdiff";
import { look, State } from "../parts/state";
import { Time } from "../parts/time";
import { type TableRow, Why, Unreadable } from "./tables-why";

interface SeenRow {
  key: string;
  id: string;
  at: string;
  content: Record<string, unknown> | null;
  op: string;
  runs: { id: string; state: RunState }[];
}

const COLUMNS = 4;

const LONG = 40;

export default function Tables(): ReactNode {
  useTitle("Tables");
  const { table } = useParams({ strict: false });
  const tables = useQueryOnce<TableRow>("tables", {}, { every: 15_000 });
  const Heading = table ? "h2" : "h1"; // of a phone, it is the page
  const wanted = table && !table.includes(".") ? `public.${table}` : table;
  const relation = wanted ?? tables.rows?.[0]?.relation;
  const row = tables.rows?.find((each) => each.relation === relation);
  return (
    <div className="triage tbl">
      <div className={`side${table ? " hide-s" : ""}`} role="region" aria-label="Tables">
        <div className="item">
          <Heading>Tables with agents</Heading>
        </div>
        {tables.rows?.map((each) => (
          <Link
            key={each.relation}
            className="item"
            to="/tables/$table"
            params={{ table: each.relation }}
            activeProps={{}}
            aria-current={each.relation === relation || undefined}
          >
            <span className="top">
              <span className="mono strong clip" title={each.relation}>
                {tableName(each.relation)}
              </span>
              <span className="muted">{Number(each.rows) > 0 && `≈ ${count(each.rows)}`}</span>
            </span>
            {each.is_broken ? <State state="broken" long /> : <span className="muted clip">{each.agents}</span>}
          </Link>
        ))}
      </div>
      {tables.error && !tables.rows ? (
        <Problem error={tables.error} again={tables.again} />
      ) : !tables.rows ? (
        <Skeleton />
      ) : relation ? (
        <div className={`contents${table ? "" : " hide-s"}`}>
          <Rows key={relation} relation={relation} table={row} />
        </div>
      ) : (
        <section className="stack" aria-label="Tables">
          <div className="lead2">
            <h1>Tables</h1>
          </div>
          <EmptyBody title="No table has an agent" command="walagent agents attach TABLE 'agent=NAME'">
            A row has no run while nothing is attached to its table.
          </EmptyBody>
        </section>
      )}
    </div>
  );
}

function Rows({ relation, table }: { relation: string; table: TableRow | undefined }) {
  const { key = "" } = useSearch({ strict: false });
  const navigate = useNavigate();
  const { rows, error, again } = useQueryOnce<SeenRow>(
    "table_rows",
    { relation, key },
    { every: 3_000, skip: !!table?.refusal },
  );
  const names = columnsOf(rows ?? []);
  const Heading = useParams({ strict: false }).table ? "h1" : "h2";
  return (
    <section className="stack" aria-label={relation}>
      <div className="lead2">
        <p className="crumb only-s">
          <Link to="/tables">Tables</Link> / {relation}
        </p>
        <div className="row wrap">
          <Heading className="mono">{relation}</Heading>
          <span className="muted">rows as runs saw them last</span>
          <span className="end row">
            {table && (
              <Link className="btn small" to="/agents" search={{ q: tableName(relation) }}>
                {table.attachments} {table.attachments === 1 ? "attachment" : "attachments"}
              </Link>
            )}
            <Link className="btn quiet small" to="/runs" search={{ table: relation }}>
              All runs
            </Link>
          </span>
        </div>
        {!table?.refusal && (
          <FilterBar
            label="Filter rows"
            placeholder="key of a row, such as 13"
            text={key}
            onChange={(_, text) =>
              void navigate({ to: "/tables/$table", params: { table: relation }, search: { key: text }, replace: true })
            }
          />
        )}
      </div>
      <div className="list2 scroll" tabIndex={0} role="group" aria-label="Rows">
        {table?.refusal ? (
          <Unreadable table={table} />
        ) : error && !rows ? (
          <Problem error={error} again={again} />
        ) : rows === null ? (
          <Skeleton rows={8} />
        ) : rows.length === 0 ? (
          <EmptyBody
            title={key ? `No run for key ${key}` : "No run for this table yet"}
            command={`walagent why ${shellWord(tableName(relation))} ${shellWord(key || "KEY")}`}
          >
            {key
              ? "Its condition was false, it was written before the attachment, or it does not exist."
              : "Each matching change will start a run."}{" "}
            The command says why.
            {key && table?.is_explained && (
              <span className="row">
                <Why relation={relation} row={key} />
              </span>
            )}
          </EmptyBody>
        ) : (
          <table className="cards fixed">
            <colgroup>
              <col className="w-id" />
              {names.map((name, i) => (
                <col key={name} className={i === 0 ? "w-first" : "hide-s"} />
              ))}
              <col className="w-s" />
              <col className="w-runs2" />
            </colgroup>
            <thead>
              <tr>
                <th scope="col" className="num">
                  key
                </th>
                {names.map((name) => (
                  <th scope="col" key={name} className="hide-s">
                    {name}
                  </th>
                ))}
                <th scope="col" className="num">
                  Changed
                </th>
                <th scope="col">Runs</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.key}>
                  <td className="num mono inline" data-l="key">
                    {row.key}
                  </td>
                  {names.map((name, i) => (
                    <td key={name} className={i === 0 ? "clip" : "clip hide-s"}>
                      {row.content && name in row.content ? <Cell value={row.content[name]} /> : ""}
                    </td>
                  ))}
                  <td className="num nowrap inline" data-l="Changed">
                    {row.op === "delete" ? "deleted " : ""}
                    <Time at={row.at} short />
                  </td>
                  <td className="runs-c">
                    <span className="badges">
                      {row.runs.slice(-4).map((run) => {
                        const { icon, tone, word } = look(badge(run.state));
                        return (
                          <Link
                            key={run.id}
                            className={`rb st-${tone}`}
                            to="/runs/$run"
                            params={{ run: run.id }}
                            aria-label={`Run ${run.id}, ${word}`}
                          >
                            <Icon name={icon} />
                            {run.id}
                          </Link>
                        );
                      })}
                      {table?.is_explained && row.key && <Why relation={relation} row={row.key} />}
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
      {!table?.refusal && (
        <div className="listfoot">
          <span>
            {rows?.length ?? 0} rows with runs{rows?.length === 200 && ", the newest"}
          </span>
          <span className="hide-s">
            For a row without a run: <code>walagent why {shellWord(tableName(relation))} KEY</code>
          </span>
        </div>
      )}
    </section>
  );
}

/** The columns that are shown: short values first of all, texts that are not too long. */
function columnsOf(rows: readonly SeenRow[]): string[] {
  const names = [...new Set(rows.slice(0, 20).flatMap((row) => Object.keys(row.content ?? {})))];
  const width = (name: string) => Math.max(...rows.slice(0, 20).map((row) => textOf(row.content?.[name]).length), 0);
  const isTitle = (name: string) => /^(subject|title|name|summary)$/.test(name);
  const score = (name: string) => (isTitle(name) ? -1 : width(name) > LONG ? 1_000 : names.indexOf(name));
  return names
    .filter((name) => name !== "id")
    .sort((a, b) => score(a) - score(b))
    .slice(0, COLUMNS);
}
