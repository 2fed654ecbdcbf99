/** What a person sees who may not see all runs: it never looks as if there were none. */
import { hasRole, useSession } from "../data/session";
import { NeedsRole } from "./needs-role";

/** Whether the session sees the runs of others. */
export function useSeesRuns(): boolean {
  return hasRole(useSession()?.roles ?? [], "viewer", "approver", "auditor");
}

/** A note for those who see their own runs alone; nothing for others. */
export function OwnOnly() {
  const seesRuns = useSeesRuns();
  if (seesRuns) return null;
  return (
    <NeedsRole lacks="viewer">
      <b className="strong">You see your own runs.</b> All runs need the role
    </NeedsRole>
  );
}
