/** Documents that agents retrieve: the rows of the page documents, as `console.NAME` gives them. */

export type DocumentState = "indexed" | "queued" | "waiting";

/** `documents`: one page, the last changed first, or the best found; parameters: q, before (a place), limit. */
export interface DocumentRow {
  id: string;
  title: string;
  source: string;
  beginning: string;
  /** Of what was searched for; null: nothing was. */
  excerpt: string | null;
  size: number;
  updated_at: string;
  created_by: string;
  state: DocumentState;
  /** Whether another document replaces it: agents do not find it. */
  is_superseded: boolean;
  place: string;
}

/** `document`: one row, or none; parameter: id. */
export interface StoredDocument {
  id: string;
  title: string;
  source: string;
  body: string;
  metadata: Record<string, unknown>;
  version: number;
  created_by: string;
  created_at: string;
  updated_at: string;
  state: DocumentState;
  chunks: string;
  embedded: string;
  models: string | null;
  /** is_of: the other document says so of this one. */
  links: { relation: string; id: string; title: string; is_of: boolean }[];
  may_change: boolean;
}

/** Most bytes of a body, as the table has them. */
export const MOST_BYTES = 1_048_576;

/** What is wrong with a document that is written; undefined: nothing. */
export function wrongDocument(title: string, body: string): string | undefined {
  if (!title.trim()) return "A title is needed.";
  if (Array.from(title).length > 1_000) return "The title has at most 1,000 characters.";
  if (!body.trim()) return "A text is needed.";
  if (new TextEncoder().encode(body).length > MOST_BYTES) return "The text has at most 1 MB.";
  return undefined;
}

/** A source as a link, if it is an address of the web. */
export function sourceLink(source: string): string | undefined {
  return /^https?:\/\/[^\s]+$/.test(source) ? source : undefined;
}

const RELATIONS: Record<string, [to: string, of: string]> = {
  references: ["references", "is referred to by"],
  supersedes: ["supersedes", "is superseded by"],
  part_of: ["is part of", "has the part"],
  summarizes: ["summarizes", "is summarized by"],
  translates: ["translates", "is translated by"],
  related: ["is related to", "is related to"],
};

/** What a relation says, read from this document. */
export function relationText(relation: string, isOf: boolean): string {
  return RELATIONS[relation]?.[isOf ? 1 : 0] ?? relation;
}
