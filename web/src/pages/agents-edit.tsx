/** An agent's prompt, model and limits: edited as a new version, compared, tried, rolled back. */
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect, useState } from "react";

import {
  type AgentVersion,
  type Draft,
  draftOf,
  isChanged,
  keepDraft,
  keptDraft,
  LIMITS,
  limitProblem,
  valuesOf,
} from "../data/agents";
import { isMac } from "../data/local";
import { mutate } from "../data/mutate";
import { useQueryOnce } from "../data/queries";
import { Refused } from "../data/request";
import { useKeys } from "../frame/keyboard";
import { useTitle } from "../frame/title";
import { Confirm } from "../parts/confirm";
import { Notice, Problem } from "../parts/notice";
import { Empty, Panel, Skeleton } from "../parts/panel";
import { TextDiff, useDiff } from "../parts/textdiff";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";
import { Try } from "./agents-try";
import { RefusalNotice, RollBack } from "./agents-versions";
import { Compare } from "./agents-compare";
import { Settings } from "./agents-settings";

export default function AgentsEdit(): ReactNode {
  const { agent } = useParams({ from: "/signed-in/agents/$agent/edit" });
  useTitle(`Edit ${agent}`);
  const { rows, error, again } = useQueryOnce<AgentVersion>("agent_versions", { agent });
  const current = rows?.[0];
  if (error && !rows) return <Problem error={error} again={again} />;
  if (rows === null) return <Skeleton />;
  if (!current)
    return (
      <Empty title={`Agent ${agent} does not exist`} command="select name from agent.agent;">
        Or you may not see its versions: reading them needs the role viewer, approver or developer.
      </Empty>
    );
  // With another agent, everything typed belongs elsewhere.
  return <Editor key={agent} agent={agent} versions={rows} current={current} again={again} />;
}

interface EditorProps {
  agent: string;
  versions: readonly AgentVersion[];
  current: AgentVersion;
  again: () => void;
}

function Editor({ agent, versions, current, again }: EditorProps) {
  const search = useSearch({ from: "/signed-in/agents/$agent/edit" });
  const navigate = useNavigate();
  const [draft, setDraft] = useState<Draft>(() => keptDraft(agent)?.draft ?? draftOf(current));
  const [savedAt, setSavedAt] = useState<string | null>(() => keptDraft(agent)?.at ?? null);
  const [isAsking, ask] = useState<"publish" | "discard" | "rollback" | null>(null);
  const mayChange = current.refusal === null;
  const compared = search.to ? versions.find((each) => String(each.version) === search.to) : undefined;
  const isComparing = !mayChange || compared !== undefined;
  const base = versions.find((each) => each.version === draft.base) ?? current;
  const hasChanges = isChanged(draft, base);
  const problems = LIMITS.map(({ name }) => limitProblem(name, draft.limits[name])).filter(Boolean);
  const to = compared ?? current;
  const from =
    versions.find((each) => String(each.version) === search.from) ??
    versions.find((each) => each.version < to.version) ??
    to;

  // A version that somebody has made meanwhile is the new base of an untouched draft.
  useEffect(() => {
    if (!hasChanges && draft.base !== current.version) setDraft(draftOf(current));
  }, [hasChanges, draft.base, current]);
  useEffect(() => {
    const leave = (event: BeforeUnloadEvent) => hasChanges && event.preventDefault();
    addEventListener("beforeunload", leave);
    return () => removeEventListener("beforeunload", leave);
  }, [hasChanges]);

  const edit = (next: Draft) => {
    setDraft(next);
    const kept = isChanged(next, base) ? next : null;
    keepDraft(agent, kept);
    setSavedAt(kept && new Date().toISOString());
  };
  const reset = (version: AgentVersion) => {
    keepDraft(agent, null);
    setSavedAt(null);
    setDraft(draftOf(version));
  };
  const show = (next: { from?: string; to?: string; view?: string }) =>
    void navigate({ to: "/agents/$agent/edit", params: { agent }, search: next, replace: true });
  const canPublish = mayChange && !isComparing && hasChanges && problems.length === 0 && base === current;
  const publish = async () => {
    try {
      const done = await mutate<number>("publish_agent", { agent, base: draft.base, ...valuesOf(draft) });
      keepDraft(agent, null);
      toast(
        <>
          Published v{done.result} of <b className="strong">{agent}</b>. The next runs use it.
        </>,
      );
      await navigate({ to: "/agents/$agent", params: { agent } });
    } catch (error) {
      if (error instanceof Refused && error.status === 404)
        toast(`Not published: another version of ${agent} was made meanwhile. Your draft is kept.`, {
          state: "failed",
        });
      else toastProblem(error);
      again();
    }
  };
  useKeys({ "Mod+Enter": () => canPublish && ask("publish") });

  return (
    <div className="stack">
      <div className="head">
        <p className="crumb">
          <Link to="/agents">Agents</Link> /{" "}
          <Link to="/agents/$agent" params={{ agent }}>
            {agent}
          </Link>
        </p>
        <h1>{isComparing ? "Compare versions" : "Edit prompt"}</h1>
        {!isComparing && (
          <span className="muted">
            {hasChanges ? (
              <>
                draft from v{draft.base}, saved in this tab <Time at={savedAt} />
              </>
            ) : (
              `v${draft.base}, unchanged`
            )}
          </span>
        )}
        <div className="actions">
          {isComparing ? (
            mayChange && (
              <>
                {from.version < current.version && (
                  <button type="button" className="btn" onClick={() => ask("rollback")}>
                    Roll back to v{from.version}…
                  </button>
                )}
                <button type="button" className="btn primary" onClick={() => show({})}>
                  Edit prompt
                </button>
              </>
            )
          ) : (
            <>
              <button type="button" className="btn quiet" disabled={!hasChanges} onClick={() => ask("discard")}>
                Discard…
              </button>
              <button type="button" className="btn primary" disabled={!canPublish} onClick={() => ask("publish")}>
                Publish as v{current.version + 1}… <kbd>{isMac ? "⌘↵" : "Ctrl ↵"}</kbd>
              </button>
            </>
          )}
        </div>
      </div>
      {current.refusal && <RefusalNotice refusal={current.refusal} agent={agent} />}
      {mayChange && !isComparing && hasChanges && base !== current && (
        <Notice
          tone="person"
          live="alert"
          action={
            <span className="row wrap">
              <button
                type="button"
                className="btn small"
                onClick={() => show({ from: String(base.version), to: String(current.version) })}
              >
                Compare v{base.version} and v{current.version}
              </button>
              <button type="button" className="btn small" onClick={() => edit({ ...draft, base: current.version })}>
                Go on from v{current.version}
              </button>
            </span>
          }
        >
          {current.made_by} made v{current.version} <Time at={current.made_at} />. Your draft is from v{base.version};
          published, it would take that back.
        </Notice>
      )}
      {mayChange && current.of_file && (
        <Notice tone="info">
          agents.yaml has the attachment {current.of_file}. The next <code>walagent apply</code> sets the agent to what
          the file says; change it there, too.
        </Notice>
      )}
      {isComparing ? (
        <Compare versions={versions} from={from} to={to} show={show} />
      ) : (
        <div className="grid-eq break-m">
          <div className="stack">
            <Prompt
              draft={draft}
              base={base}
              isDiff={search.view === "diff"}
              edit={edit}
              show={show}
              publish={() => canPublish && ask("publish")}
            />
            <Settings draft={draft} base={base} edit={edit} />
          </div>
          <Try
            attachments={current.attachments}
            base={base}
            draft={draft}
            hasChanges={hasChanges}
            isBlocked={problems.length > 0}
          />
        </div>
      )}
      {isAsking === "publish" && (
        <Confirm
          title={`Publish v${current.version + 1} of ${agent}?`}
          action={`Publish as v${current.version + 1}`}
          keep="Keep it as a draft"
          onConfirm={publish}
          onClose={() => ask(null)}
        >
          <p>Runs that have begun keep v{current.version}. Approvals that wait keep their digest.</p>
        </Confirm>
      )}
      {isAsking === "discard" && (
        <Confirm
          title="Discard the draft?"
          action="Discard the draft"
          keep="Keep it"
          danger
          onConfirm={() => reset(current)}
          onClose={() => ask(null)}
        >
          <p>What differs from v{draft.base} is gone.</p>
        </Confirm>
      )}
      {isAsking === "rollback" && (
        <RollBack agent={agent} current={current} to={from} again={again} onClose={() => ask(null)} />
      )}
    </div>
  );
}

interface PromptProps {
  draft: Draft;
  base: AgentVersion;
  isDiff: boolean;
  edit: (next: Draft) => void;
  show: (next: { view?: string }) => void;
  publish: () => void;
}

function Prompt({ draft, base, isDiff, edit, show, publish }: PromptProps) {
  const { lines, added, removed } = useDiff(base.system_prompt, draft.system_prompt);
  return (
    <Panel
      title="System prompt"
      aside={<span className="muted">{added || removed ? `+${added} −${removed} lines` : "unchanged"}</span>}
      end={
        <span className="toggle" role="group" aria-label="View">
          <button type="button" aria-pressed={!isDiff} onClick={() => show({})}>
            Edit
          </button>
          <button type="button" aria-pressed={isDiff} onClick={() => show({ view: "diff" })}>
            Diff to v{base.version}
          </button>
        </span>
      }
      foot={`Runs that have begun keep v${base.version}. Approvals that wait keep their digest.`}
    >
      {isDiff ? (
        lines.length ? (
          <TextDiff lines={lines} label={`Difference between v${base.version} and the draft`} />
        ) : (
          <p className="muted">Both are empty.</p>
        )
      ) : (
        <textarea
          className="prompt"
          aria-label="System prompt"
          value={draft.system_prompt}
          rows={Math.min(28, Math.max(10, draft.system_prompt.split("\n").length + 2))}
          spellCheck={false}
          onChange={(event) => edit({ ...draft, system_prompt: event.target.value })}
          onKeyDown={(event) => event.key === "Enter" && (event.metaKey || event.ctrlKey) && publish()}
        />
      )}
    </Panel>
  );
}
