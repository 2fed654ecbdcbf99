/** What a person sees who lacks a role: what it would show, and how an admin grants it. */
import type { ReactNode } from "react";

import { useSession } from "../data/session";
import { Copy } from "./copy";
import { Icon } from "./icon";

export function NeedsRole({ lacks, children }: { lacks: string; children: ReactNode }) {
  const me = useSession()?.principal;
  if (!me) return null;
  const grant = `select agent.grant_role('${me.replaceAll("'", "''")}', '${lacks}');`;
  return (
    <div className="notice info" role="status">
      <Icon name="lock" />
      <div>
        <p>
          {children} <code>{lacks}</code>. An admin can grant it: <code>{grant}</code> <Copy text={grant} />
        </p>
      </div>
    </div>
  );
}
