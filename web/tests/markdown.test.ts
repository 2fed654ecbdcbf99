import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";

import { address, isProse } from "../src/data/markdown";
import Markdown from "../src/parts/markdown";

const html = (text: string) => renderToStaticMarkup(createElement(Markdown, { text }));

test("lists, emphasis, code, tables and links are drawn", () => {
  const found = html(
    "# Title\n\n**Bold** and `a < b`\n\n- one\n- two\n\n```sql\nselect 1\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n[x](https://e.org/)",
  );
  for (const each of ["<strong>Bold</strong>", "<code>a &lt; b</code>", "<li>one", "select 1</pre>", "<td", ">2</td>"])
    expect(found).toContain(each);
  expect(found).toMatch(/<a href="https:\/\/e.org\/"[^>]*rel="noopener noreferrer nofollow"/);
});

test.each([
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "a <b onclick=alert(1)>b</b>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](java\nscript:alert(1))",
  "[x](&#106;avascript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](vbscript:x)",
  "<javascript:alert(1)>",
  "![x](https://tracker.example/pixel.png)",
  "![x](javascript:alert(1))",
  "[x]: javascript:alert(1)\n\n[x]",
  '[x](https://e.org/"onmouseover="alert(1))',
  "<style>*{display:none}</style>",
  "<iframe src=https://e.org></iframe>",
])("%s runs nothing and loads nothing", (text) => {
  const found = html(text);
  expect(found).not.toMatch(/<(script|img|iframe|style|b|object|svg|form|input)\b/i);
  expect(found).not.toMatch(/<[^>]*\s(on\w+|style|src)=/i);
  for (const [, to] of found.matchAll(/href="([^"]*)"/g)) expect(to).toMatch(/^(https?|mailto):/);
});

test("an image is a link to where it is", () => {
  expect(html("![the graph](https://e.org/g.png)")).toContain('href="https://e.org/g.png"');
});

test.each([`${">".repeat(50_000)}x`, `${"> - ".repeat(2000)}x`])("what is too deep is a text", (text) => {
  expect(html(text)).toMatch(/^<div class="plain">(&gt;|[ -])+x<\/div>$/);
});

test("marks that would keep the page waiting are a text", () => {
  for (const each of ["a_", "*a", "~a"]) expect(isProse(each.repeat(40_000))).toBe(false);
  expect(isProse("*a* ".repeat(500))).toBe(true);
  expect(isProse("a".repeat(100_001))).toBe(false);
});

test("what is not seen is shown", () => {
  expect(html("pay\u202e now `a\u200bb`")).toContain("\\u{202e}");
});

test("lines that were typed stay lines", () => {
  expect(html("one\ntwo")).toContain("<br/>");
});

test("only addresses that a browser opens as pages are links", () => {
  expect(address("https://e.org")).toBe("https://e.org/");
  expect(address("mailto:a@e.org")).toBe("mailto:a@e.org");
  for (const each of ["/runs", "#x", "javascript:1", "file:///etc/passwd", "", "\u0001javascript:1"])
    expect(address(each)).toBeUndefined();
});

const files = import.meta.glob<string>("../{src,burn}/**/*.tsx", { query: "?raw", import: "default", eager: true });

test("messages and answers are Markdown, and no file writes HTML of its own", () => {
  const plain = Object.entries(files).flatMap(([name, text]) =>
    Array.from(
      text.matchAll(/className="(?:bubble|said|answer)"[^>]*>([^<]*\{[^<]*\}\s*)</g),
      ([, inside]) => `${name}: ${inside?.trim()}`,
    ),
  );
  // Reasons, and examples of them, are messages of PostgreSQL and of providers.
  expect(plain.filter((each) => !each.startsWith("../burn/") && !/\.(reason|example)/.test(each))).toEqual([]);
  expect(Object.values(files).join("")).not.toContain("dangerouslySetInnerHTML");
});
