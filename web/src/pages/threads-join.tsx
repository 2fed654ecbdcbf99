/** Where an invitation leads: join, then the thread. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect, useState } from "react";

import { mutate } from "../data/mutate";
import { Refused, refused } from "../data/request";
import { useSession } from "../data/session";
import { useThread } from "../data/threads";
import { useTitle } from "../frame/title";
import { Problem } from "../parts/notice";
import { Panel, Skeleton } from "../parts/panel";
import { Absent } from "./missing";

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export default function Join(): ReactNode {
  useTitle("Join a thread");
  const { thread = "" } = useSearch({ from: "/signed-in/join" });
  if (!ID.test(thread))
    return (
      <Absent
        text="This invitation is incomplete."
        detail="Copy the whole link: it ends with the ID of the thread."
        to="/threads"
        action="Open threads"
      />
    );
  return <Invited id={thread.toLowerCase()} />;
}

function Invited({ id }: { id: string }) {
  const me = useSession()?.principal;
  const { rows, isLoading } = useThread(id);
  const [problem, setProblem] = useState<Refused | null>(null);
  const [isSending, setSending] = useState(false);
  const navigate = useNavigate();
  const isMember = rows[0]?.is_member ?? false;
  useEffect(() => {
    if (isMember) void navigate({ to: "/threads/$thread", params: { thread: id }, replace: true });
  }, [isMember, id, navigate]);
  const join = async () => {
    setSending(true);
    try {
      await mutate("join_thread", { thread: id });
      await navigate({ to: "/threads/$thread", params: { thread: id }, replace: true });
    } catch (error) {
      setProblem(refused(error));
      setSending(false);
    }
  };
  if (isLoading || isMember) return <Skeleton label="The invitation is loading" />;
  return (
    <div className="stack narrow">
      <div className="head">
        <h1>You are invited to a thread</h1>
      </div>
      <Panel label="Join">
        <div className="stack tight">
          <p>
            {rows[0]?.title ? <b className="strong">{rows[0].title} </b> : null}
            Its members see that <b className="strong">{me}</b> joins, and you see what was said before.
          </p>
          <div className="row">
            <button type="button" className="btn primary" disabled={isSending} onClick={join}>
              {isSending ? "Sending" : `Join as ${me}`}
            </button>
          </div>
        </div>
        {problem && <Problem error={problem} />}
      </Panel>
    </div>
  );
}
