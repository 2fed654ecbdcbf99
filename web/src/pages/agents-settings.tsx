/** Model, tools and limits of a draft. */
import { type AgentVersion, changedParts, type Draft, LIMITS, limitProblem, type Model } from "../data/agents";
import { money } from "../data/format";
import { useQueryOnce } from "../data/queries";
import { Panel } from "../parts/panel";

export function Settings({ draft, base, edit }: { draft: Draft; base: AgentVersion; edit: (next: Draft) => void }) {
  const models = useQueryOnce<Model>("models").rows ?? [];
  const model = models.find((each) => each.name === draft.model);
  const changed = changedParts(draft, base);
  return (
    <Panel
      title="Model, tools and limits"
      end={<span className="muted">{changed.length ? changed.join(", ") : "unchanged"}</span>}
    >
      <div className="fields">
        <label className="field">
          <span>Model</span>
          <select value={draft.model} onChange={(event) => edit({ ...draft, model: event.target.value })}>
            {!model && <option>{draft.model}</option>}
            {models.map((each) => (
              <option key={each.name}>{each.name}</option>
            ))}
          </select>
          <span className="muted">
            {model &&
              (model.input_price === null || model.output_price === null
                ? "no price"
                : `${money(model.input_price)} in, ${money(model.output_price)} out for a million tokens`)}
          </span>
        </label>
        {LIMITS.map(({ name, title, unit, isDecimal }) => {
          const problem = limitProblem(name, draft.limits[name]);
          return (
            <label className="field" key={name}>
              <span>{title}</span>
              <input
                type="text"
                inputMode={isDecimal ? "decimal" : "numeric"}
                value={draft.limits[name]}
                aria-invalid={problem !== null}
                autoComplete="off"
                onChange={(event) => edit({ ...draft, limits: { ...draft.limits, [name]: event.target.value } })}
              />
              <span className={problem ? "wrong" : "muted"}>{problem ?? unit}</span>
            </label>
          );
        })}
      </div>
      <dl className="kv">
        <dt>Tools</dt>
        <dd className="mono">{base.tools.join(", ") || "none"}</dd>
        {base.persona && (
          <>
            <dt>Persona</dt>
            <dd>{base.persona}, whose instructions come before the prompt</dd>
          </>
        )}
      </dl>
    </Panel>
  );
}
