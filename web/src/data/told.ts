/** Sentences of the server: their runs lead to pages, their times are in the zone of the page. */

export type Piece = string | { run: string } | { at: string };

const KNOWN = /\brun (\d+)\b|\b(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC\b/g;

/** A sentence in pieces. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  for (const each of text.matchAll(KNOWN)) {
    const [whole, run, day, time] = each;
    if (each.index > from) found.push(text.slice(from, each.index));
    found.push(run ? { run } : { at: `${day}T${time}Z` });
    from = each.index + whole.length;
  }
  if (from < text.length) found.push(text.slice(from));
  return found;
}
