/** What is taken from Markdown: texts with what hides in them, and addresses that may be opened. */
import { visible } from "./visible";

const MOST = 100_000; // characters: longer texts are no messages
const MARKS = 2_000; // of emphasis, each of which the lexer compares with all others

/** Whether a text can be read as Markdown without keeping the page waiting. */
export const isProse = (text: string): boolean => text.length <= MOST && (text.match(/[*_~]/g)?.length ?? 0) <= MARKS;

/** The address of a link that may be opened; undefined: it runs a script, or leads somewhere in this page. */
export function address(href: string): string | undefined {
  if (!URL.canParse(href)) return undefined;
  const { protocol, href: whole } = new URL(href);
  return ["http:", "https:", "mailto:"].includes(protocol) ? whole : undefined;
}

/** A token's text, or what was typed. */
export function source(token: { raw: string; text?: string }, text = token.text ?? token.raw): string {
  return visible(text);
}
