/** What a person sees who may not see all runs: it never looks as if there were none. */
import { hasRole, useSession } from "../data/session";
import { Copy } from "./copy";
import { Icon } from "./icon";

/** Whether the session sees the runs of others. */
export function useSeesRuns(): boolean {
  return hasRole(useSession()?.roles ?? [], "viewer", "approver", "auditor");
}

/** A note for those who see their own runs alone; nothing for others. */
export function OwnOnly() {
  const me = useSession()?.principal;
  const seesRuns = useSeesRuns();
  if (seesRuns || !me) return null;
  const grant = `select agent.grant_role('${me.replaceAll("'", "''")}', 'viewer');`;
  return (
    <div className="notice info" role="status">
      <Icon name="lock" />
      <div>
        <p>
          <b className="strong">You see your own runs.</b> All runs need the role <code>viewer</code>. An admin can
          grant it: <code>{grant}</code> <Copy text={grant} />
        </p>
      </div>
    </div>
  );
}
