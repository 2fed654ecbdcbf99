/** Numbers of JSON that JavaScript would write in another way: 9007199254740993, 348.00. */

export class Exact {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }

  toJSON(): unknown {
    const raw = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON;
    return raw ? raw(this.text) : Number(this.text);
  }
}

/** A value of JSON as text: texts as they are, none as nothing, what has parts as JSON. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (value instanceof Exact) return value.text;
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** JSON with an element or key on each line; nothing of it is read, so that no number is written in another way. */
export function indented(json: string): string {
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  const parts = json.match(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  return parts
    .map((part) => {
      if (part === "{" || part === "[") {
        depth += 1;
        return part + line();
      }
      if (part === "}" || part === "]") {
        depth -= 1;
        return line() + part;
      }
      return part === "," ? part + line() : part === ":" ? ": " : part;
    })
    .join("");
}

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

/** Parse JSON; a number that JavaScript would write in another way is an `Exact`, where the browser shows its source. */
export function exactly(text: string): object {
  return parse(text, (value, source) => String(value) !== source);
}

/** The same of an answer of the server, where only large integers are at stake. */
export function parsed(text: string): unknown {
  return /\d{16}/.test(text)
    ? parse(text, (value, source) => Math.abs(value) > Number.MAX_SAFE_INTEGER && /^-?\d+$/.test(source))
    : JSON.parse(text);
}

function parse(text: string, loses: (value: number, source: string) => boolean): object {
  const reviver: Reviver = (_, value, context) =>
    typeof value === "number" && context?.source !== undefined && loses(value, context.source)
      ? new Exact(context.source)
      : value;
  return JSON.parse(text, reviver) as object;
}
