/** Versions of an agent: the list, a roll back, and why somebody may not change it. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { AgentVersion, Refusal } from "../data/agents";
import { mutate } from "../data/mutate";
import { useQueryOnce } from "../data/queries";
import { useSession } from "../data/session";
import { Confirm } from "../parts/confirm";
import { Notice } from "../parts/notice";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";

/** What a developer lacks; others are shown nothing that they could not do. */
export function RefusalNotice({ refusal, agent }: { refusal: Refusal; agent: string }) {
  const me = useSession()?.principal;
  if (refusal === "login")
    return (
      <Notice tone="info" icon="lock">
        You may develop agents, but your principal has no login, whose privileges bound what you can change. The
        operator can set it: <code>update agent.principal set login = 'LOGIN' where name = '{me}';</code>
      </Notice>
    );
  if (refusal === "owner")
    return (
      <Notice tone="info" icon="lock">
        An attachment of {agent} belongs to a role that your login is not a member of, so only its members change it.
      </Notice>
    );
  return null;
}

export function Versions({ agent, version }: { agent: string; version: number | null }) {
  const { rows, again } = useQueryOnce<AgentVersion>("agent_versions", { agent, shown: version });
  const [isAsking, ask] = useState(false);
  const current = rows?.[0];
  const former = rows?.[1];
  if (!rows || !current) return <p className="muted">{rows ? "not shown to you" : ""}</p>;
  return (
    <>
      <table className="flat">
        <tbody>
          {rows.slice(0, 6).map((each) => (
            <tr key={each.version}>
              <td>
                v{each.version} {each.is_current && <span className="chip">in use</span>}
              </td>
              <td>{each.made_by}</td>
              <td className="num">
                <Time at={each.made_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {former && (
        <div className="row wrap">
          <Link
            to="/agents/$agent/edit"
            params={{ agent }}
            search={{ from: String(former.version), to: String(current.version) }}
          >
            Compare v{former.version} and v{current.version}
          </Link>
          {current.refusal === null && (
            <button type="button" className="btn quiet small" onClick={() => ask(true)}>
              Roll back to v{former.version}…
            </button>
          )}
        </div>
      )}
      {isAsking && former && (
        <RollBack agent={agent} current={current} to={former} again={again} onClose={() => ask(false)} />
      )}
    </>
  );
}

interface RollBackProps {
  agent: string;
  current: AgentVersion;
  to: AgentVersion;
  again: () => void;
  onClose: () => void;
}

export function RollBack({ agent, current, to, again, onClose }: RollBackProps) {
  const rollBack = async () => {
    try {
      const done = await mutate<number>("rollback_agent", { agent, version: to.version });
      toast(
        <>
          v{done.result} of <b className="strong">{agent}</b> is as v{to.version} was. The next runs use it.
        </>,
      );
    } catch (error) {
      toastProblem(error);
    }
    again();
  };
  return (
    <Confirm
      title={`Roll ${agent} back to v${to.version}?`}
      action={`Roll back to v${to.version}`}
      keep={`Keep v${current.version}`}
      onConfirm={rollBack}
      onClose={onClose}
    >
      <p>
        v{current.version + 1} will equal v{to.version}, which {to.made_by} made <Time at={to.made_at} />: prompt,
        model, tools and limits. Runs that have begun keep v{current.version}.
      </p>
    </Confirm>
  );
}
