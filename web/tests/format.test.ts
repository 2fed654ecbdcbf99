import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { noteClock } from "../src/data/clock";
import {
  absolute,
  atLeast,
  bytes,
  clock,
  count,
  day,
  duration,
  figure,
  minute,
  money,
  number,
  percent,
  relative,
  shellWord,
  tableName,
} from "../src/data/format";

test("what is copied into a shell is one word of it, whatever it is", () => {
  expect(shellWord("support.tickets")).toBe("support.tickets");
  for (const [value, word] of [
    ["$(touch x)", "'$(touch x)'"],
    ["a b", "'a b'"],
    ["it's; rm", String.raw`'it'\''s; rm'`],
    ["", "''"],
  ] as const)
    expect(shellWord(value)).toBe(word);
});

test.each([
  ["11075.0000", "11,075"],
  ["-1234567.50", "-1,234,567.5"],
  ["9007199254740993", "9,007,199,254,740,993"],
  ["0.05", "0.05"],
  ["1e400", "1e400"],
  [null, "NULL"],
])("%s of a result is %s", (text, shown) => {
  expect(figure(text)).toBe(shown);
});

test("no value is no text, and 0 is one", () => {
  for (const write of [number, bytes]) {
    for (const none of [null, undefined, ""]) expect(write(none)).toBe("");
    expect(write(0)).not.toBe("");
  }
  expect(duration(null)).toBe("");
  expect(duration(Number.NaN)).toBe("");
});

test.each([
  [12_408, "12,408"],
  [999_999, "999,999"],
  [999_999_999, "1.0 G"],
  [1_200_000, "1.2 M"],
  [1e9, "1.0 G"],
  ["3450000", "3.5 M"],
])("a count of %s", (value, shown) => {
  expect(count(value)).toBe(shown);
});

test("a count that ended at its limit has a mark", () => {
  expect(atLeast("10000", true)).toBe("10,000+");
  expect(atLeast(12, false)).toBe("12");
});

test.each([
  [null, "no price"],
  [0, "$0.00"],
  ["0.00012", "$0.0001"],
  [0.00001, "<$0.0001"],
  [0.00999, "$0.0100"],
  [0.01, "$0.01"],
  ["1234.5", "$1,234.50"],
  [-0.005, "-$0.0050"],
  [-3, "-$3.00"],
])("money of %s", (value, shown) => {
  expect(money(value)).toBe(shown);
});

test.each([
  [-5, "0 ms"],
  [0, "0 ms"],
  [0.4, "<1 ms"],
  [0.96, "1 ms"],
  [54, "54 ms"],
  [999.4, "999 ms"],
  [999.6, "1 s"],
  [1_100, "1.1 s"],
  [9_960, "10 s"],
  [59_949, "60 s"],
  [59_960, "1 min"],
  [247_000, "4 min 7 s"],
  [3_600_000, "1 h"],
  [11_100_000, "3 h 5 min"],
  [86_400_000, "1 d"],
  [601_200_000, "6 d 23 h"],
])("a duration of %d ms", (ms, shown) => {
  expect(duration(ms)).toBe(shown);
});

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1e3, min: 6e4, h: 3.6e6, d: 8.64e7 };
/** Milliseconds of a text such as `4 min 7 s`. */
const read = (text: string) =>
  Array.from(text.matchAll(/([\d.]+) (ms|s|min|h|d)/g)).reduce(
    (sum, [, n, unit]) => sum + Number(n) * (UNITS[unit ?? ""] ?? 0),
    0,
  );

test("a duration is what it says, within a part of its size", () => {
  fc.assert(
    fc.property(fc.double({ min: 1, max: 1e10, noNaN: true }), (ms) => {
      expect(Math.abs(read(duration(ms)) - ms)).toBeLessThanOrEqual(Math.max(ms * 0.05, 0.51));
    }),
  );
});

test("a longer duration never reads as shorter", () => {
  const some = fc.double({ min: 1, max: 1e9, noNaN: true });
  fc.assert(fc.property(some, some, (a, b) => read(duration(Math.min(a, b))) <= read(duration(Math.max(a, b)))));
});

test.each([
  [0, "0 B"],
  [1_023, "1023 B"],
  [1_024, "1 kB"],
  [1_536, "1.5 kB"],
  [10_239, "10 kB"],
  [1_048_575, "1 MB"],
  [1_073_741_824, "1 GB"],
  [2 ** 50, "1 PB"],
  [-2_048, "-2 kB"],
  [-20_480, "-20 kB"],
])("%d bytes", (value, shown) => {
  expect(bytes(value)).toBe(shown);
});

test.each([
  [1, 0, ""],
  [0, 10, "0 %"],
  [1, 1_000, "0.10 %"],
  [1, 3, "33 %"],
  [999, 1_000, "100 %"],
  [2, 1, "200 %"],
])("percent of %d in %d", (part, whole, shown) => {
  expect(percent(part, whole)).toBe(shown);
});

test("the schema public is not named, also at the begin of no other name", () => {
  expect(tableName("public.tickets")).toBe("tickets");
  expect(tableName("sales.public.x")).toBe("sales.public.x");
  expect(tableName("publications")).toBe("publications");
});

describe("times", () => {
  const NOW = Date.parse("2026-11-22T12:00:00Z");
  const ago = (ms: number) => new Date(NOW - ms).toISOString();

  beforeEach(() => {
    vi.useFakeTimers({ now: NOW });
    noteClock(new Date(NOW).toISOString());
  });
  afterEach(() => vi.useRealTimers());

  test.each([
    [0, "now"],
    [999, "now"],
    [1_000, "1 s ago"],
    [59_999, "59 s ago"],
    [60_000, "1 min ago"],
    [3_599_999, "59 min ago"],
    [3_600_000, "1 h ago"],
    [86_399_999, "23 h ago"],
    [86_400_000, "1 d ago"],
    [7 * 86_400_000, "7 d ago"],
    [7 * 86_400_000 + 1, "15 Nov 2026"],
    [-500, "in 1 s"],
    [-90_000, "in 1 min 30 s"],
    [-8 * 86_400_000, "30 Nov 2026"],
  ])("%d ms ago", (ms, shown) => {
    expect(relative(ago(ms), "UTC")).toBe(shown);
  });

  test("the short form leaves out the direction of what was", () => {
    expect(relative(ago(5_000), "UTC", true)).toBe("5 s");
    expect(relative(ago(0), "UTC", true)).toBe("now");
    expect(relative(ago(-5_000), "UTC", true)).toBe("in 5 s");
  });

  test("relative times follow the clock of the database, not of this machine", () => {
    noteClock(new Date(NOW + 60_000).toISOString());
    expect(relative(ago(0), "UTC")).toBe("1 min ago");
    noteClock("no time");
    expect(relative(ago(0), "UTC")).toBe("1 min ago");
  });

  test("days and minutes are those of the zone", () => {
    const late = "2026-11-22T23:30:00Z";
    expect(day(late, "UTC")).toBe("22 Nov 2026");
    expect(day(late, "Asia/Tokyo")).toBe("23 Nov 2026");
    expect(minute(late, "Asia/Tokyo")).toBe("23 Nov 2026, 08:30");
    expect(clock("2026-11-22T00:05:00Z", "UTC")).toBe("00:05");
  });

  test("an absolute time has milliseconds, its zone, and UTC beside another one", () => {
    const at = "2026-11-22T09:01:12.408Z";
    expect(absolute(at, "UTC")).toBe("22 Nov 2026, 09:01:12.408 UTC");
    expect(absolute(at, "Europe/Berlin")).toBe(
      "22 Nov 2026, 10:01:12.408 Europe/Berlin\n22 Nov 2026, 09:01:12.408 UTC",
    );
  });

  test("the hour that a clock shows twice is told apart by UTC", () => {
    const [first, second] = [
      absolute("2026-10-25T00:30:00Z", "Europe/Berlin"),
      absolute("2026-10-25T01:30:00Z", "Europe/Berlin"),
    ];
    expect(first.split("\n")[0]).toBe(second.split("\n")[0]);
    expect(first).not.toBe(second);
  });
});
