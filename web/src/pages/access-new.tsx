/** Dialogs that add a principal, and create a token, which is shown once. */
import { type SubmitEvent, useId, useState } from "react";

import { ENDS, type Principal, SCOPES, wrongName } from "../data/access";
import { mutate } from "../data/mutate";
import { type Refused, refused } from "../data/request";
import { Dialog } from "../parts/confirm";
import { Copy } from "../parts/copy";
import { Notice } from "../parts/notice";
import { toast } from "../parts/toast";

function Refusal({ error }: { error: Refused | null }) {
  return error ? (
    <p className="wrong" role="alert">
      {error.message}. {error.hint}
    </p>
  ) : null;
}

interface AddProps {
  known: readonly Principal[];
  again: () => void;
  onClose: () => void;
}

export function AddPrincipal({ known, again, onClose }: AddProps) {
  const form = useId();
  const [name, setName] = useState("");
  const [kind, setKind] = useState("user");
  const [display, setDisplay] = useState("");
  const [email, setEmail] = useState("");
  const [error, setError] = useState<Refused | null>(null);
  const [isSending, setSending] = useState(false);
  const wrong = wrongName(name.trim(), known);
  const add = async (event: SubmitEvent) => {
    event.preventDefault();
    setSending(true);
    try {
      const given = { name: name.trim(), kind, display_name: display.trim(), email: email.trim() };
      await mutate("add_principal", given);
      toast(`Added ${name.trim()}, who has no role yet.`);
      again();
      onClose();
    } catch (problem) {
      setError(refused(problem));
      setSending(false);
    }
  };
  return (
    <Dialog
      title="Add a person or a service"
      className="edit"
      onClose={onClose}
      foot={
        <>
          <button type="submit" form={form} className="btn primary" disabled={isSending || !name.trim() || !!wrong}>
            {isSending ? "Sending" : `Add ${name.trim() || "…"}`}
          </button>
          <button type="button" className="btn quiet" onClick={onClose}>
            Cancel
          </button>
        </>
      }
    >
      <form className="body" id={form} onSubmit={add}>
        <label className="field">
          Name
          <input
            type="text"
            value={name}
            autoComplete="off"
            spellCheck={false}
            aria-invalid={wrong ? true : undefined}
            onChange={(event) => setName(event.target.value)}
          />
          {wrong && <span className="wrong">{wrong}</span>}
        </label>
        <label className="field">
          Is
          <select value={kind} onChange={(event) => setKind(event.target.value)}>
            <option value="user">a person</option>
            <option value="service">a service, which acts with a token</option>
          </select>
        </label>
        <label className="field">
          Shown as; optional
          <input type="text" value={display} onChange={(event) => setDisplay(event.target.value)} />
        </label>
        <label className="field">
          E-mail; optional
          <input type="text" inputMode="email" value={email} onChange={(event) => setEmail(event.target.value)} />
        </label>
        <p className="soft">
          It signs in with a token. To change agents it also needs a login of PostgreSQL, which only the operator ties
          to it.
        </p>
        <Refusal error={error} />
      </form>
    </Dialog>
  );
}

interface NewTokenProps {
  people: readonly Principal[];
  chosen: string;
  again: () => void;
  onClose: () => void;
}

export function NewToken({ people, chosen, again, onClose }: NewTokenProps) {
  const form = useId();
  const active = people.filter((each) => each.active && each.kind !== "agent");
  const [principal, setPrincipal] = useState(
    chosen || (active.find((each) => !each.is_me)?.name ?? active[0]?.name ?? ""),
  );
  const [label, setLabel] = useState("");
  const [scopes, setScopes] = useState<readonly string[]>([]);
  const [days, setDays] = useState("30");
  const [made, setMade] = useState<string | null>(null);
  const [error, setError] = useState<Refused | null>(null);
  const [isSending, setSending] = useState(false);
  const create = async (event: SubmitEvent) => {
    event.preventDefault();
    setSending(true);
    try {
      const given = { principal, label: label.trim(), scopes: scopes.join(), days };
      setMade((await mutate<{ token: string }>("create_token", given)).result.token);
      again();
    } catch (problem) {
      setError(refused(problem));
    }
    setSending(false);
  };
  if (made !== null) return <Shown token={made} principal={principal} onClose={onClose} />;
  return (
    <Dialog
      title="New token"
      className="edit"
      onClose={onClose}
      foot={
        <>
          <button type="submit" form={form} className="btn primary" disabled={isSending || !principal || !label.trim()}>
            {isSending ? "Sending" : "Create the token"}
          </button>
          <button type="button" className="btn quiet" onClick={onClose}>
            Cancel
          </button>
        </>
      }
    >
      <form className="body" id={form} onSubmit={create}>
        <label className="field">
          Stands in for
          <select value={principal} onChange={(event) => setPrincipal(event.target.value)}>
            {active.map((each) => (
              <option key={each.name}>{each.name}</option>
            ))}
          </select>
        </label>
        <label className="field">
          What it is for
          <input
            type="text"
            value={label}
            placeholder="deploy pipeline"
            onChange={(event) => setLabel(event.target.value)}
          />
        </label>
        <fieldset className="stack tight">
          <legend className="soft">Can be used to; none: for all that {principal} may do</legend>
          <div className="boxes">
            {Object.entries(SCOPES).map(([scope, what]) => (
              <label className="check" key={scope}>
                <input
                  type="checkbox"
                  checked={scopes.includes(scope)}
                  onChange={(event) =>
                    setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((each) => each !== scope))
                  }
                />
                <code>{scope}</code> <span className="muted">{what}</span>
              </label>
            ))}
          </div>
        </fieldset>
        <label className="field">
          Expires
          <select value={days} onChange={(event) => setDays(event.target.value)}>
            {Object.entries(ENDS).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <Refusal error={error} />
      </form>
    </Dialog>
  );
}

/** The token, once: neither Escape nor a click beside it closes this. */
function Shown({ token, principal, onClose }: { token: string; principal: string; onClose: () => void }) {
  return (
    <Dialog
      title={`Token of ${principal}`}
      className="edit"
      onClose={() => undefined}
      foot={
        <button type="button" className="btn primary" onClick={onClose}>
          I have kept it
        </button>
      }
    >
      <div className="body">
        <Notice tone="person" live="status">
          It is shown now and never again: the database has only a digest of it.
        </Notice>
        <div className="row">
          <input type="text" readOnly aria-label="Token" value={token} onFocus={(event) => event.target.select()} />
          <Copy text={token} className="btn" />
        </div>
      </div>
    </Dialog>
  );
}
