/** Attach an agent to a table: a new one, or one that exists. */
import { Link } from "@tanstack/react-router";
import { type ReactNode } from "react";

import type { Model } from "../data/agents";
import { useQueryOnce } from "../data/queries";
import { hasRole, useSession } from "../data/session";
import { useTitle } from "../frame/title";
import { Problem } from "../parts/notice";
import { Empty, Skeleton } from "../parts/panel";
import { RefusalNotice } from "./agents-versions";
import { type Options, type TableRow, type AgentRow, Form } from "./attach-form";

export default function Attach(): ReactNode {
  useTitle("Attach");
  const tables = useQueryOnce<TableRow>("attach_tables");
  const options = useQueryOnce<Options>("attach_options");
  const models = useQueryOnce<Model>("models");
  const agents = useQueryOnce<AgentRow>("attachments");
  const mayDevelop = hasRole(useSession()?.roles ?? [], "developer");
  const error = tables.error ?? options.error ?? models.error ?? agents.error;
  const head = (
    <div className="head">
      <p className="crumb">
        <Link to="/agents">Agents</Link>
      </p>
      <h1>Attach an agent</h1>
    </div>
  );
  if (!mayDevelop)
    return (
      <div className="stack">
        {head}
        <Empty title="Attaching needs the role developer" command={"select agent.grant_role(NAME, 'developer');"}>
          An admin can grant it. You may read the agents that are attached.
        </Empty>
      </div>
    );
  if (error) return <Problem error={error} again={tables.again} />;
  if (!tables.rows || !options.rows || !models.rows || !agents.rows) return <Skeleton />;
  const found = options.rows[0];
  return (
    <div className="stack">
      {head}
      {!found ? (
        <RefusalNotice refusal="login" agent="" />
      ) : tables.rows.length === 0 ? (
        <Empty title={`Login ${found.login} can read no table`} command={`grant select on TABLE to ${found.login};`}>
          An agent is attached to a table whose columns your login, and the role that it runs as, can read.
        </Empty>
      ) : (
        <Form tables={tables.rows} options={found} models={models.rows} agents={agents.rows} />
      )}
    </div>
  );
}
