/**
 * Markdown of models and people, as React elements: nothing of it becomes HTML.
 *
 * HTML is shown as it was typed, links lead to http, https and mailto alone, and an image is a link:
 * loading it would tell its server who reads.
 */
import { marked, type Token, type Tokens } from "marked";
import { Fragment, type ReactNode } from "react";

import { address, source } from "../data/markdown";
import { visible } from "../data/visible";

export default function Markdown({ text }: { text: string }) {
  const tokens = lexed(text);
  return tokens ? <div className="md">{shown(tokens)}</div> : <div className="plain">{visible(text)}</div>;
}

/** The tokens of a text; undefined: blocks stand in one another deeper than the lexer can follow. */
function lexed(text: string): readonly Token[] | undefined {
  try {
    return marked.lexer(text, { gfm: true, breaks: true });
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

const shown = (tokens: readonly Token[] | undefined): ReactNode =>
  tokens?.map((each, i) => <Fragment key={i}>{one(each)}</Fragment>);

function linked(href: string, text: ReactNode): ReactNode {
  const to = address(href);
  return to === undefined ? (
    text
  ) : (
    <a href={to} target="_blank" rel="noopener noreferrer nofollow" title={to}>
      {text}
    </a>
  );
}

function one(token: Token): ReactNode {
  const inside = () => shown((token as Tokens.Generic).tokens);
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return (
        <p className="strong" dir="auto">
          {inside()}
        </p>
      );
    case "paragraph":
      return <p dir="auto">{inside()}</p>;
    case "blockquote":
      return <blockquote dir="auto">{inside()}</blockquote>;
    case "code":
      return (
        <pre className="code" tabIndex={0}>
          {source(token)}
        </pre>
      );
    case "hr":
      return <hr />;
    case "list": {
      const { ordered, start, items } = token as Tokens.List;
      const List = ordered ? "ol" : "ul";
      return (
        <List dir="auto" {...(ordered && start !== "" && { start })}>
          {items.map((item, i) => (
            <li key={i}>
              {item.task && (item.checked ? "☑ " : "☐ ")}
              {shown(item.tokens)}
            </li>
          ))}
        </List>
      );
    }
    case "table": {
      const { header, rows } = token as Tokens.Table;
      return (
        <div className="scroll" tabIndex={0} role="group" aria-label="Table">
          <table>
            <thead>
              <tr>
                {header.map((cell, i) => (
                  <th key={i} scope="col" dir="auto">
                    {shown(cell.tokens)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row, n) => (
                <tr key={n}>
                  {row.map((cell, i) => (
                    <td key={i} dir="auto">
                      {shown(cell.tokens)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    }
    case "strong":
      return <strong>{inside()}</strong>;
    case "em":
      return <em>{inside()}</em>;
    case "del":
      return <del>{inside()}</del>;
    case "codespan":
      return <code>{source(token)}</code>;
    case "br":
      return <br />;
    case "link":
      return linked((token as Tokens.Link).href, inside());
    case "image":
      return linked((token as Tokens.Image).href, (token as Tokens.Image).text || (token as Tokens.Image).href);
    case "text":
    case "escape":
      return (token as Tokens.Text).tokens ? inside() : source(token);
    default:
      return source(token, token.raw); // HTML, and whatever is new: as it was typed
  }
}
