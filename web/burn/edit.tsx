/** Edit a thread: its name, users, invitation and agents. */
import { type SubmitEvent, useState } from "react";

import { Confirm, Dialog } from "../src/parts/confirm";
import { Copy } from "../src/parts/copy";
import { Icon } from "../src/parts/icon";
import { toastProblem } from "../src/parts/toast";
import { Avatar } from "./avatar";
import { ingest, type Member, type Thread, type User } from "./data";
import { inviteLink } from "./route";

const SHOWN = 2_000;

interface EditProps {
  user: User;
  thread: Thread;
  members: readonly Member[];
  onClose: () => void;
}

export function Edit({ user, thread, members, onClose }: EditProps) {
  const [removing, setRemoving] = useState<Member | null>(null);
  const isOwner = members.some((each) => each.user.id === user.id && each.membership.role === "owner");
  const people = members
    .filter((each) => each.user.type === "human")
    .toSorted((a, b) => Number(b.user.id === user.id) - Number(a.user.id === user.id));
  const agents = members.filter((each) => each.user.type === "agent");
  const remove = async (member: Member) => {
    try {
      await ingest({ type: "delete", relation: "memberships", row: member.membership });
    } catch (error) {
      toastProblem(error);
    }
  };
  const list = (found: readonly Member[]) => (
    <ul>
      {found.map((each) => (
        <li key={each.membership.id}>
          <Avatar user={each.user} />
          <span className="clip grow">
            {each.user.name} <span className="muted">{each.user.id === user.id ? "you" : each.membership.role}</span>
          </span>
          {each.user.id === user.id ? (
            <button type="button" className="btn small" onClick={() => setRemoving(each)}>
              Leave
            </button>
          ) : (
            isOwner &&
            each.membership.role !== "producer" && (
              <button
                type="button"
                className="btn small danger"
                aria-label={`Remove ${each.user.name}`}
                onClick={() => setRemoving(each)}
              >
                <Icon name="x" small />
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
        title="Edit thread"
        onClose={onClose}
        foot={
          <button type="button" className="btn end" onClick={onClose}>
            Done
          </button>
        }
      >
        <div className="body">
          <Name thread={thread} />
          <section>
            <h3>Users</h3>
            {list(people)}
          </section>
          <section>
            <h3>Invite</h3>
            <div className="row">
              <input type="text" readOnly aria-label="Invitation" value={inviteLink(thread.id)} />
              <Copy text={inviteLink(thread.id)} className="btn" />
            </div>
          </section>
          <section>
            <h3>Agents</h3>
            {list(agents)}
          </section>
        </div>
      </Dialog>
      {removing && (
        <Confirm
          title={
            removing.user.id === user.id ? `Leave ${thread.name}?` : `Remove ${removing.user.name} from the thread?`
          }
          action={removing.user.id === user.id ? "Leave" : `Remove ${removing.user.name}`}
          keep={removing.user.id === user.id ? "Stay" : `Keep ${removing.user.name}`}
          danger
          onConfirm={() => remove(removing)}
          onClose={() => setRemoving(null)}
        >
          <p className="soft">
            {removing.user.type === "agent"
              ? "Its turn ends at once, and it takes part no more. What it said stays."
              : "What was said stays. Who has the invitation can join again."}
          </p>
        </Confirm>
      )}
    </>
  );
}

function Name({ thread }: { thread: Thread }) {
  const [name, setName] = useState(thread.name);
  const [said, say] = useState("Save");
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    try {
      await ingest({
        type: "update",
        relation: "threads",
        row: { id: thread.id, name: thread.name },
        changes: { name: name.trim() },
      });
      say("Saved");
      setTimeout(() => say("Save"), SHOWN);
    } catch (error) {
      toastProblem(error);
    }
  };
  return (
    <form className="stack tight" onSubmit={save}>
      <label className="field" htmlFor="name">
        Name
      </label>
      <div className="row">
        <input id="name" type="text" maxLength={80} value={name} onChange={(event) => setName(event.target.value)} />
        <button className="btn primary" type="submit" disabled={!name.trim() || name.trim() === thread.name}>
          <span aria-live="polite">{said}</span>
        </button>
      </div>
    </form>
  );
}
