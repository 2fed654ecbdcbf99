/** SQL with its keywords, texts, numbers and comments told apart, for reading. */

const TOKEN =
  /(--[^\n]*|\/\*[^]*?(?:\*\/|$))|(\$(\w*)\$[^]*?(?:\$\3\$|$)|'(?:[^']|'')*(?:'|$))|"(?:[^"]|"")*(?:"|$)|(\b\d+(?:\.\d+)?\b)|([a-z_][\w$]*)/gi;
const KEYWORDS = new Set(
  (
    "all and any array as asc at between both by case cast collate cross current_date current_timestamp desc distinct else end escape except exists extract false" +
    " fetch filter first following for from full group grouping having ilike in inner intersect interval into is join last lateral left like limit materialized" +
    " natural not null nulls offset on only or order outer over partition preceding range recursive right row rows select sets similar some table then ties time" +
    " timestamp to true unbounded union unnest using values when where window with within without zone"
  ).split(" "),
);

export function Sql({ text }: { text: string }) {
  const parts: React.ReactNode[] = [];
  let end = 0;
  const add = (at: number, token: string, look: string) => {
    if (at > end) parts.push(text.slice(end, at));
    parts.push(
      <span key={at} className={look}>
        {token}
      </span>,
    );
    end = at + token.length;
  };
  for (const found of text.matchAll(TOKEN)) {
    const [token, comment, quoted, , digits, word] = found;
    if (comment) add(found.index, token, "cm");
    else if (quoted) add(found.index, token, "sv");
    else if (digits) add(found.index, token, "nv");
    else if (word && KEYWORDS.has(word.toLowerCase())) add(found.index, token, "k");
  }
  parts.push(text.slice(end));
  return <>{parts}</>;
}
