/** The grammar of the filter bar: free text and tokens such as `state:failed`. */

export interface Token {
  name: string;
  value: string;
  /** Why it has no effect, such as a column that was dropped: shown struck through. */
  invalid?: string;
}

export interface Suggestion {
  name: string;
  /** Known values; none: anything. */
  values?: readonly string[];
  hint?: string;
}

/** Split typed text into tokens with a known name, and the rest. */
export function parseTokens(text: string, known: readonly Suggestion[]): { tokens: Token[]; text: string } {
  const tokens: Token[] = [];
  const rest: string[] = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const at = word.indexOf(":");
    const name = word.slice(0, at);
    if (at > 0 && word.length > at + 1 && known.some((each) => each.name === name))
      tokens.push({ name, value: word.slice(at + 1) });
    else rest.push(QUOTED.test(word) ? word.slice(1, -1) : word);
  }
  return { tokens, text: rest.join(" ") };
}

const QUOTED = /^".+"$/;
const TOKEN = /^([A-Za-z_]+):[^/\s]/;

/** A text as it is typed: in quotes is each word that would be read as something else without them. */
export function typedText(text: string, known: readonly Suggestion[]): string {
  const isToken = (word: string) => TOKEN.test(word) || parseTokens(word, known).tokens.length > 0;
  return text
    .split(/\s+/)
    .map((word) => (QUOTED.test(word) || isToken(word) ? `"${word}"` : word))
    .join(" ");
}

/** A word that looks like a token of another name, and the name that is meant; quotes make it text. */
export function unknownToken(text: string, known: readonly Suggestion[]): { name: string; meant?: string } | undefined {
  if (known.length === 0) return undefined;
  const names = known.map((each) => each.name);
  for (const word of text.split(/\s+/)) {
    const name = TOKEN.exec(word)?.[1];
    if (name === undefined || names.includes(name)) continue;
    const near = names.find((each) => isNear(name.toLowerCase(), each));
    return near ? { name, meant: near } : { name };
  }
  return undefined;
}

/** Whether a name is another one with a letter too many, too few or wrong, or its beginning. */
function isNear(typed: string, name: string): boolean {
  if (typed.length > 1 && (name.startsWith(typed) || typed.startsWith(name))) return true;
  let [start, end] = [0, 0];
  while (start < typed.length && typed[start] === name[start]) start += 1;
  while (end < Math.min(typed.length, name.length) - start && typed.at(-1 - end) === name.at(-1 - end)) end += 1;
  return Math.max(typed.length, name.length) - start - end <= 1;
}

const LENGTH = /^(\d+(\.\d+)?\s*(ms|s|sec|secs|min|mins|h|hours?|d|days?|w|weeks?)\s*)+$/;
const TIME = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$/;
const isTime = (text: string) => TIME.test(text) && !Number.isNaN(Date.parse(text.replace(" ", "T")));

/** What is wrong with a value that the database could not read; undefined: nothing. */
export function wrongValue(name: string, value: string): string | undefined {
  if (name === "duration") return LENGTH.test(value.replace(/^[<>]/, "")) ? undefined : "Such as 10s, or <10s";
  if (name === "cost") return /^[<>]?\d+(\.\d+)?$/.test(value) ? undefined : "Such as 0.05, or <0.05";
  if (!["since", "until", "ended"].includes(name)) return undefined;
  const [from = "", to = ""] = name === "ended" ? value.split("..") : [value];
  const isWord = from === "today" && name !== "until";
  return (isWord || LENGTH.test(from) || isTime(from)) && (!to || (isTime(from) && isTime(to)))
    ? undefined
    : "Such as 24h, or 2026-11-24T10:00Z";
}

/** The values of a list, each once; a comma at its end is being typed. */
function listed(value: string): string {
  return [...new Set(value.split(",").filter(Boolean))].join(",") || value;
}

const SINGLE = ["since", "until", "ended", "duration", "cost"]; // a list of them has no meaning

/** Add tokens: one of each name, and values of the same name joined. */
export function joined(old: readonly Token[], added: readonly Token[]): Token[] {
  const found = [...old];
  for (const { name, value } of added) {
    const at = found.findIndex((each) => each.name === name);
    const before = found[at];
    if (before && SINGLE.includes(name)) found[at] = { name, value };
    else if (before) found[at] = { name, value: listed(`${before.value},${value}`) };
    else found.push({ name, value: listed(value) });
  }
  return found;
}

/** What the last word could become. */
export function suggest(typed: string, known: readonly Suggestion[]): string[] {
  const word = typed.split(/\s+/).at(-1) ?? "";
  const at = word.indexOf(":");
  if (at < 0) return known.map((each) => `${each.name}:`).filter((each) => each.startsWith(word));
  const name = word.slice(0, at);
  const given = word.slice(at + 1);
  const before = given.includes(",") ? given.slice(0, given.lastIndexOf(",") + 1) : "";
  const last = given.slice(before.length);
  const values = known.find((each) => each.name === name)?.values ?? [];
  return values
    .filter((each) => each.startsWith(last) && each !== last && !before.split(",").includes(each))
    .slice(0, 12)
    .map((each) => `${name}:${before}${each}`);
}
