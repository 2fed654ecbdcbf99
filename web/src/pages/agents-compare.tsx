/** Two versions of an agent side by side. */
import { type AgentVersion, changedParts, draftOf, LIMITS } from "../data/agents";
import { Panel } from "../parts/panel";
import { TextDiff, useDiff } from "../parts/textdiff";
import { Time } from "../parts/time";

interface CompareProps {
  versions: readonly AgentVersion[];
  from: AgentVersion;
  to: AgentVersion;
  show: (next: { from?: string; to?: string }) => void;
}

export function Compare({ versions, from, to, show }: CompareProps) {
  const { lines, added, removed } = useDiff(from.system_prompt, to.system_prompt);
  const changed = changedParts(draftOf(to), from);
  const choose = (label: string, value: AgentVersion, set: (version: string) => void) => (
    <label className="row">
      <span className="muted">{label}</span>
      <select value={value.version} onChange={(event) => set(event.target.value)}>
        {versions.map((each) => (
          <option key={each.version} value={each.version}>
            v{each.version} {each.is_current ? "in use" : ""} {each.made_by}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <div className="row wrap versions">
        {choose("From", from, (version) => show({ from: version, to: String(to.version) }))}
        {choose("to", to, (version) => show({ from: String(from.version), to: version }))}
      </div>
      <Panel
        title="System prompt"
        aside={<span className="muted">{added || removed ? `+${added} −${removed} lines` : "the same in both"}</span>}
        foot={
          <>
            v{to.version} was made by {to.made_by} <Time at={to.made_at} />, v{from.version} by {from.made_by}{" "}
            <Time at={from.made_at} />.
          </>
        }
      >
        {lines.length ? (
          <TextDiff lines={lines} label={`Difference between v${from.version} and v${to.version}`} />
        ) : (
          <p className="muted">Both are empty.</p>
        )}
      </Panel>
      <Panel
        title="Model, tools and limits"
        end={
          <span className="muted">
            {changed.length || from.tools.join() !== to.tools.join() ? "" : "the same in both"}
          </span>
        }
      >
        <dl className="kv">
          <dt>Model</dt>
          <dd>{from.model === to.model ? to.model : `${from.model} → ${to.model}`}</dd>
          {LIMITS.map(({ name, title }) => (
            <Limit key={name} title={title} was={from.limits[name]} is={to.limits[name]} />
          ))}
          <dt>Tools</dt>
          <dd className="mono">
            {from.tools.join(", ") || "none"}{" "}
            {from.tools.join() !== to.tools.join() && `→ ${to.tools.join(", ") || "none"}`}
          </dd>
        </dl>
      </Panel>
    </>
  );
}

function Limit({ title, was, is }: { title: string; was: number | null; is: number | null }) {
  return (
    <>
      <dt>{title}</dt>
      <dd>{was === is ? (is ?? "none") : `${was ?? "none"} → ${is ?? "none"}`}</dd>
    </>
  );
}
