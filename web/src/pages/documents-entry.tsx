/** One document: a line; opened, its text, how far it is indexed, and what it is related to. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { type DocumentRow, relationText, sourceLink, type StoredDocument } from "../data/documents";
import { bytes, number } from "../data/format";
import { mutate } from "../data/mutate";
import { useQueryOnce } from "../data/queries";
import { visible } from "../data/visible";
import { Confirm } from "../parts/confirm";
import { Problem } from "../parts/notice";
import { Opener } from "../parts/opener";
import { Skeleton } from "../parts/panel";
import { Payload } from "../parts/payload";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";
import { WriteDocument } from "./documents-edit";

const STATES: Record<DocumentRow["state"], string> = { indexed: "done", queued: "running", waiting: "pending" };

interface EntryProps {
  row: DocumentRow;
  isOpen: boolean;
  toggle: (id: string) => void;
  again: () => void;
}

export function DocumentEntry({ row, isOpen, toggle, again }: EntryProps) {
  return (
    <details className="grp doc" open={isOpen}>
      <Opener
        toggle={() => {
          toggle(row.id);
        }}
      >
        <span className="muted nowrap">
          <Time at={row.updated_at} />
        </span>
        <span className="nowrap">
          {row.is_superseded ? (
            <State state="skipped" word="superseded" bare />
          ) : (
            <State state={STATES[row.state]} word={row.state} bare />
          )}
        </span>
        <span className="clip" dir="auto">
          <b className="strong">{visible(row.title)}</b>{" "}
          <span className="soft">{visible(row.excerpt ?? row.beginning)}</span>
        </span>
        <span className="muted nowrap">{bytes(row.size)}</span>
      </Opener>
      {isOpen && <Whole id={row.id} again={again} />}
    </details>
  );
}

function Whole({ id, again }: { id: string; again: () => void }) {
  const { rows, error, again: read } = useQueryOnce<StoredDocument>("document", { id });
  const [isAsking, ask] = useState<"change" | "remove" | null>(null);
  if (error && !rows) return <Problem error={error} again={read} />;
  if (rows === null) return <Skeleton rows={3} />;
  const [found] = rows;
  if (!found)
    return (
      <div className="gbody">
        <p className="soft">It was deleted meanwhile.</p>
      </div>
    );
  const remove = async () => {
    try {
      await mutate("remove_document", { id });
      toast(`Deleted ${found.title}.`);
    } catch (problem) {
      toastProblem(problem);
    }
    again();
  };
  return (
    <div className="gbody">
      <Payload title="Text" text={found.body} open name={`${found.title}.txt`} />
      <Facts found={found} />
      {found.may_change && (
        <div className="row wrap">
          <button type="button" className="btn small" onClick={() => ask("change")}>
            Change…
          </button>
          <button type="button" className="btn small danger" onClick={() => ask("remove")}>
            Delete…
          </button>
        </div>
      )}
      {isAsking === "change" && (
        <WriteDocument
          document={found}
          again={() => {
            read();
            again();
          }}
          onClose={() => ask(null)}
        />
      )}
      {isAsking === "remove" && (
        <Confirm
          title={`Delete ${found.title}?`}
          action="Delete it"
          keep="Keep it"
          danger
          onConfirm={remove}
          onClose={() => ask(null)}
        >
          <p>Agents find it no longer. Its chunks and relations are deleted with it.</p>
        </Confirm>
      )}
    </div>
  );
}

function Facts({ found }: { found: StoredDocument }) {
  const link = sourceLink(found.source);
  const metadata = Object.entries(found.metadata);
  return (
    <dl className="kv">
      <dt>Source</dt>
      <dd className="wrapped">
        {link ? (
          <a href={link} target="_blank" rel="noreferrer noopener">
            {visible(found.source)}
          </a>
        ) : (
          visible(found.source) || <span className="muted">none</span>
        )}
      </dd>
      <dt>Stored by</dt>
      <dd>
        <bdi>{visible(found.created_by)}</bdi> <Time at={found.created_at} />
        {found.version > 1 && (
          <>
            , version {found.version} <Time at={found.updated_at} />
          </>
        )}
      </dd>
      <dt>Index</dt>
      <dd>
        {found.state}: {number(found.chunks)} {found.chunks === "1" ? "chunk" : "chunks"},{" "}
        {Number(found.embedded) > 0
          ? `${number(found.embedded)} embedded by ${found.models}`
          : "none embedded: found by words"}
      </dd>
      {metadata.length > 0 && (
        <>
          <dt>Metadata</dt>
          <dd>
            <code className="wrapped">{visible(JSON.stringify(found.metadata))}</code>
          </dd>
        </>
      )}
      {found.links.length > 0 && (
        <>
          <dt>Relations</dt>
          <dd>
            {found.links.map((each) => (
              <span className="block" key={`${each.relation} ${each.is_of} ${each.id}`}>
                {relationText(each.relation, each.is_of)}{" "}
                <Link to="/documents" search={{ q: each.title, open: each.id }}>
                  {visible(each.title)}
                </Link>
              </span>
            ))}
          </dd>
        </>
      )}
    </dl>
  );
}
