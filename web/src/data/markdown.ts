/** What is taken from Markdown: texts with what hides in them, and addresses that may be opened. */
import { visible } from "./visible";

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
