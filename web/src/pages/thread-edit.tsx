/** Edit a thread: its title, members, invitation and state. */
import { useNavigate } from "@tanstack/react-router";
import { type SubmitEvent, useState } from "react";

import { mutate } from "../data/mutate";
import { useSession } from "../data/session";
import { invitation, listShape, type Member, type Thread, threadShape, titleOf, useCandidates } from "../data/threads";
import { Initial } from "../parts/avatar";
import { Confirm, Dialog } from "../parts/confirm";
import { Copy } from "../parts/copy";
import { toast, toastProblem } from "../parts/toast";

interface EditProps {
  thread: Thread;
  members: readonly Member[];
  onClose: () => void;
}

export function EditThread({ thread, members, onClose }: EditProps) {
  const me = useSession()?.principal;
  const [leaving, setLeaving] = useState<Member | null>(null);
  const navigate = useNavigate();
  const people = members.filter((each) => each.kind !== "agent");
  const agents = members.filter((each) => each.kind === "agent");
  const remove = async (member: Member) => {
    try {
      if (member.name === me) {
        await mutate("leave_thread", { thread: thread.id }, [listShape(), threadShape("thread", thread.id)]);
        onClose();
        await navigate({ to: "/threads" });
      } else
        await mutate("remove_member", { thread: thread.id, name: member.name }, [
          threadShape("thread_members", thread.id),
        ]);
    } catch (error) {
      toastProblem(error);
    }
  };
  const list = (found: readonly Member[]) => (
    <ul>
      {found.map((each) => (
        <li key={each.name}>
          <Initial name={each.name} isAgent={each.kind === "agent"} />
          <span className="clip grow">
            {each.name}{" "}
            <span className="muted">{[each.name === me ? "you" : "", each.role].filter(Boolean).join(", ")}</span>
          </span>
          {each.name === me ? (
            <button type="button" className="btn small" onClick={() => setLeaving(each)}>
              Leave
            </button>
          ) : (
            thread.can_manage && (
              <button
                type="button"
                className="btn small danger"
                aria-label={`Remove ${each.name}`}
                onClick={() => setLeaving(each)}
              >
                Remove
              </button>
            )
          )}
        </li>
      ))}
    </ul>
  );
  return (
    <>
      <Dialog
        className="edit"
        title={thread.can_post ? "Edit thread" : "Members"}
        onClose={onClose}
        foot={
          <button type="button" className="btn end" onClick={onClose}>
            Done
          </button>
        }
      >
        <div className="body">
          {thread.can_post && <Title thread={thread} />}
          <section aria-label="People">
            <h3>People</h3>
            {list(people)}
          </section>
          <section aria-label="Agents">
            <h3>Agents</h3>
            {agents.length ? list(agents) : <p className="muted">No agent takes part.</p>}
          </section>
          {thread.can_post && <Add thread={thread} />}
          {thread.is_member && (
            <section aria-label="Invitation">
              <h3>Invitation</h3>
              <p className="soft">Whom you send this link can join, if they can sign in here.</p>
              <div className="row">
                <input type="text" readOnly aria-label="Invitation" value={invitation(thread.id)} />
                <Copy text={invitation(thread.id)} className="btn" />
              </div>
            </section>
          )}
          {thread.can_manage && <States thread={thread} />}
        </div>
      </Dialog>
      {leaving && (
        <Confirm
          title={leaving.name === me ? `Leave ${titleOf(thread)}?` : `Remove ${leaving.name} from the thread?`}
          action={leaving.name === me ? "Leave" : `Remove ${leaving.name}`}
          keep={leaving.name === me ? "Stay" : `Keep ${leaving.name}`}
          danger
          onConfirm={() => remove(leaving)}
          onClose={() => setLeaving(null)}
        >
          <p className="soft">
            {leaving.kind === "agent"
              ? "Its turn is cancelled, and it takes part no more. What it said stays."
              : "What was said stays. The invitation lets one join again."}
          </p>
        </Confirm>
      )}
    </>
  );
}

function Title({ thread }: { thread: Thread }) {
  const [title, setTitle] = useState(thread.title);
  const [isSending, setSending] = useState(false);
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    setSending(true);
    try {
      await mutate("rename_thread", { thread: thread.id, title: title.trim() }, [threadShape("thread", thread.id)]);
      toast("Renamed the thread.");
    } catch (error) {
      toastProblem(error);
    }
    setSending(false);
  };
  return (
    <form className="stack tight" onSubmit={save}>
      <label className="field" htmlFor="title">
        Title
      </label>
      <div className="row">
        <input
          id="title"
          type="text"
          maxLength={200}
          value={title}
          onChange={(event) => setTitle(event.target.value)}
        />
        <button className="btn" type="submit" disabled={isSending || !title.trim() || title.trim() === thread.title}>
          {isSending ? "Sending" : "Rename"}
        </button>
      </div>
    </form>
  );
}

function Add({ thread }: { thread: Thread }) {
  const { rows, again } = useCandidates(thread.id);
  const [name, setName] = useState("");
  const [isSending, setSending] = useState(false);
  const found = rows?.find((each) => each.name === name.trim());
  const add = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!found) return;
    setSending(true);
    try {
      await mutate("add_member", { thread: thread.id, name: found.name }, [threadShape("thread_members", thread.id)]);
      setName("");
      again();
    } catch (error) {
      toastProblem(error);
    }
    setSending(false);
  };
  return (
    <form className="stack tight" onSubmit={add} aria-label="Add a member">
      <label className="field" htmlFor="member">
        Add a person or an agent
      </label>
      <div className="row">
        <input
          id="member"
          type="text"
          list="candidates"
          autoComplete="off"
          spellCheck={false}
          placeholder="Name"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <datalist id="candidates">
          {rows?.map((each) => (
            <option key={each.name} value={each.name}>
              {each.kind}
            </option>
          ))}
        </datalist>
        <button className="btn" type="submit" disabled={isSending || !found}>
          {isSending ? "Sending" : "Add"}
        </button>
      </div>
      {found && !found.takes_turns && (
        <p className="muted">
          {found.name} takes no turns yet: <code>select agent.attach_to_threads('{found.name}');</code>
        </p>
      )}
      {name.trim() && rows && !found && <p className="muted">Nobody with this name can be added.</p>}
    </form>
  );
}

function States({ thread }: { thread: Thread }) {
  const [isSending, setSending] = useState(false);
  const change = (name: string, said: string) => async () => {
    setSending(true);
    try {
      await mutate(`${name}_thread`, { thread: thread.id }, [threadShape("thread", thread.id)]);
      toast(said);
    } catch (error) {
      toastProblem(error);
    }
    setSending(false);
  };
  const is = (state: string) => thread.state === state;
  return (
    <section aria-label="State" className="stack tight">
      <h3>State: {thread.state}</h3>
      <div className="row wrap">
        {is("active") && (
          <button
            type="button"
            className="btn small"
            disabled={isSending}
            onClick={change("pause", "Paused: agents take no turns.")}
          >
            Pause
          </button>
        )}
        {!is("active") && (
          <button
            type="button"
            className="btn small"
            disabled={isSending}
            onClick={change("resume", "Resumed the thread.")}
          >
            Resume
          </button>
        )}
        {!is("completed") && !is("archived") && (
          <button
            type="button"
            className="btn small"
            disabled={isSending}
            onClick={change("complete", "Marked as completed; a message continues it.")}
          >
            Complete
          </button>
        )}
        {!is("archived") && (
          <button
            type="button"
            className="btn small"
            disabled={isSending}
            onClick={change("archive", "Archived: nothing can be posted until it is resumed.")}
          >
            Archive
          </button>
        )}
      </div>
    </section>
  );
}
