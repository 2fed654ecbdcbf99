import fc from "fast-check";
import { expect, test } from "vitest";

import { csv } from "../src/data/csv";

/** Read CSV as RFC 4180 says. */
function read(text: string): (string | null)[][] {
  return Array.from(text.matchAll(/(?:^|(,)|(\n))(?:"((?:[^"]|"")*)"|([^,\n"]*))/g)).reduce<(string | null)[][]>(
    (rows, [, comma, , quoted, plain]) => {
      if (comma === undefined) rows.push([]);
      rows.at(-1)?.push(quoted?.replaceAll('""', '"') ?? (plain || null));
      return rows;
    },
    [],
  );
}

const cells = fc.option(fc.oneof(fc.string(), fc.stringMatching(/^[="',\r\n@+\-\t 0-9a]{0,6}$/)));

test("what is read is what was written, but for formulas", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(cells, cells, cells)), (rows) => {
      const [head, ...found] = read(csv(["a", "b", "c"], rows));
      expect(head).toEqual(["a", "b", "c"]);
      expect(found).toHaveLength(rows.length);
      found.flat().forEach((cell, i) => {
        const given = rows.flat()[i] ?? null;
        expect([given, `'${given}`]).toContain(cell);
      });
    }),
  );
});

test("no cell begins as a formula", () => {
  fc.assert(
    fc.property(cells, (value) => {
      const cell = read(csv(["a"], [[value]]))[1]?.[0] ?? "";
      expect(/^[=@\t\r]/.test(cell)).toBe(false);
      if (/^[+-]/.test(cell)) expect(Number(cell)).not.toBeNaN();
    }),
  );
});

test.each([
  ["=1+1", "'=1+1"],
  ["-1.5", "-1.5"],
  ["+5", "+5"],
  ["-1e5", "-1e5"],
  ["-1+cmd", "'-1+cmd"],
  ["@sum", "'@sum"],
  ["", '""'],
  [null, ""],
  ['say "no"', '"say ""no"""'],
  ["a\rb", '"a\rb"'],
  [0, "0"],
])("%j", (value, written) => {
  expect(csv(["a"], [[value]])).toBe(`a\n${written}`);
});
