/** The fields of the form that attaches an agent, and which of them an error is about. */
import type { ReactNode } from "react";

import type { Refused } from "../data/request";

export type FieldName =
  | "table"
  | "ops"
  | "condition"
  | "columns"
  | "writes"
  | "name"
  | "agent"
  | "model"
  | "tools"
  | "bind"
  | "approve"
  | "run_as";
/** Of several boxes, each with a label of its own. */
const SETS: ReadonlySet<FieldName> = new Set<FieldName>(["ops", "columns", "writes"]);
export type Errors = Partial<Record<FieldName | "form", string>>;

/** The field that an error of PostgreSQL is about. */
export function fieldOf(error: Refused, isNew: boolean): FieldName | "form" {
  const { code = "", message, status } = error;
  if (status === 404) return isNew ? "name" : "agent";
  if (code === "23505" || /^attachment ".*" already exists/.test(message)) return "name";
  if (code === "WA014" || message.startsWith("model ")) return "model";
  if (code === "WA011") return message.includes("approve") ? "approve" : message.includes("bind") ? "bind" : "tools";
  if (/must be a member of role|^role /.test(message)) return message.includes("lacks SELECT") ? "columns" : "run_as";
  if (message.startsWith("columns:")) return "columns";
  if (message.startsWith("writes:")) return "writes";
  if (message.startsWith("bind")) return "bind";
  if (code === "WA012" || ["42601", "42703", "42702", "42883", "42804", "42725", "22P02"].includes(code))
    return "condition";
  if (message.includes("replica identity")) return "ops";
  if (code === "WA013" || code === "42P01") return "table";
  return "form";
}

/** What makes each field, with its hint, or with what is wrong there. */
export function fieldsOf(errors: Errors) {
  const field = (id: FieldName, title: string, control: ReactNode, hint?: ReactNode) => (
    <div className="field" role="group" aria-labelledby={`${id}-title`}>
      {SETS.has(id) ? (
        <span id={`${id}-title`}>{title}</span>
      ) : (
        <label htmlFor={`f-${id}`} id={`${id}-title`}>
          {title}
        </label>
      )}
      {control}
      <span id={`${id}-hint`} className={errors[id] ? "wrong" : "muted"} role={errors[id] ? "alert" : undefined}>
        {errors[id] ?? hint}
      </span>
    </div>
  );
  const props = (id: FieldName) => ({
    id: `f-${id}`,
    "data-field": id,
    "aria-invalid": errors[id] !== undefined,
    "aria-describedby": `${id}-hint`,
  });
  const input = (
    id: FieldName,
    value: string,
    set: (text: string) => void,
    rest: { list?: string; placeholder?: string } = {},
  ) => (
    <input
      type="text"
      value={value}
      autoComplete="off"
      spellCheck={false}
      onChange={(event) => set(event.target.value)}
      {...props(id)}
      {...rest}
    />
  );
  const boxes = (
    id: FieldName,
    all: readonly string[],
    held: readonly string[],
    set: (next: readonly string[]) => void,
  ) => (
    <div className="boxes">
      {all.map((each, i) => (
        <label className="check" key={each}>
          <input
            type="checkbox"
            {...(i === 0 ? props(id) : {})}
            checked={held.includes(each)}
            onChange={(event) =>
              set(all.filter((other) => (other === each ? event.target.checked : held.includes(other))))
            }
          />
          <span className="mono">{each}</span>
        </label>
      ))}
    </div>
  );
  return { field, props, input, boxes };
}
