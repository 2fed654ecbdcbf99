import fc from "fast-check";
import { expect, test } from "vitest";

import { axis, axisOf, line, mark, path, price, ticks, type Unit } from "../src/data/axes";

const counts = fc.integer({ min: 1, max: 1_000_000_000 });
const amounts = fc.double({ min: 1e-5, max: 1e6, noNaN: true });

test("an axis ends at or above the highest value, in at most four steps", () => {
  fc.assert(
    fc.property(fc.oneof(counts, amounts), fc.boolean(), (most, dollars) => {
      const { top, step } = axis(most, dollars);
      expect(top).toBeGreaterThanOrEqual(most * (1 - 1e-9));
      const steps = top / step;
      expect(steps).toBeCloseTo(Math.round(steps), 6);
      expect(Math.round(steps)).toBeLessThanOrEqual(4);
    }),
  );
});

test("the step of counts is a whole number", () => {
  fc.assert(fc.property(counts, (most) => Number.isInteger(axis(most).step)));
});

test.each([
  [0, { top: 2, step: 1 }],
  [-1, { top: 2, step: 1 }],
  [1, { top: 1, step: 1 }],
  [3, { top: 4, step: 2 }],
  [5, { top: 5, step: 5 }],
  [40, { top: 40, step: 20 }],
  [50, { top: 50, step: 25 }],
])("an axis for %d", (most, wanted) => {
  expect(axis(most)).toEqual(wanted);
});

test("marks of prices differ from each other", () => {
  fc.assert(
    fc.property(amounts, (most) => {
      const { top, step } = axis(most, true);
      const marks = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => price(i * step, step));
      expect(new Set(marks).size).toBe(marks.length);
    }),
  );
});

test.each([
  [0.005, 0.005, "$0.005"],
  [0.05, 0.05, "$0.05"],
  [25, 25, "$25"],
  [2.5, 2.5, "$2.50"],
  [0.1, 0.1, "$0.10"],
])("a price of %d in steps of %d", (value, step, shown) => {
  expect(price(value, step)).toBe(shown);
});

const numbers = (text: string) => (text.match(/-?\d+(\.\d+)?/g) ?? []).map(Number);
const series = fc.array(fc.option(fc.integer({ min: 0, max: 1_000 })), { maxLength: 20 });

test("a line stays in its box and has a point for each value", () => {
  fc.assert(
    fc.property(series, (values) => {
      const drawn = values.filter((value) => value !== null);
      const text = line(values, 120, 26);
      expect(text).not.toMatch(/NaN|undefined|Infinity/);
      if (drawn.length < 2) return;
      const all = numbers(text);
      expect(all.length).toBe(2 * drawn.length);
      all.forEach((each, i) => {
        expect(each).toBeGreaterThanOrEqual(0);
        expect(each).toBeLessThanOrEqual(i % 2 ? 24 : 120);
      });
    }),
  );
});

test("the highest value touches the top, nothing lies at the bottom", () => {
  expect(line([0, 5, 10], 100, 26)).toBe("M0.0 24.0 L50.0 13.5 L100.0 3.0");
  expect(line([0, 0], 100, 26)).toBe("M0.0 24.0 L100.0 24.0");
});

test("a line of nothing is empty, one of a value is a stroke", () => {
  expect(line([], 100, 26)).toBe("");
  expect(line([null, null], 100, 26)).toBe("");
  expect(line([null, 7, null], 100, 26)).toBe("M50.0 3.0h3");
  expect(line([null, 7], 100, 26)).toBe("M100.0 3.0h-3");
});

test("a path begins again after a gap", () => {
  const at = (value: number) => value;
  expect(path([1, 2, null, 4, 5], at, at)).toBe("M0.0 1.0 L1.0 2.0 M3.0 4.0 L4.0 5.0");
  expect(path([null, 3, null], at, at)).toBe("M1.0 3.0 m-5 0h5");
  expect(path([null], at, at)).toBe("");
  fc.assert(
    fc.property(series, (values) => {
      const pieces = values.filter((value, i) => value !== null && (values[i - 1] ?? null) === null).length;
      expect((path(values, at, at).match(/M/g) ?? []).length).toBe(pieces);
    }),
  );
});

test.each<[number, Unit, string[]]>([
  [200_000, "ms", ["0", "2 min", "4 min"]],
  [950, "ms", ["0", "500 ms", "1 s"]],
  [48_000, "ms", ["0", "30 s", "1 min"]],
  [900_000, "ms", ["0", "10 min", "20 min"]],
  [1_000_000, "count", ["0", "500 k", "1 M"]],
  [3_600, "count", ["0", "2,000", "4,000"]],
  [38, "count", ["0", "20", "40"]],
  [44, "dollars", ["$0", "$25", "$50"]],
])("the marks of an axis up to %d %s", (most, unit, shown) => {
  const { top, step } = axisOf(most, unit);
  expect(Array.from({ length: Math.round(top / step) + 1 }, (_, i) => mark(i * step, step, unit))).toEqual(shown);
});

test("marks of one axis differ, whatever its unit", () => {
  fc.assert(
    fc.property(counts, fc.constantFrom<Unit>("count", "ms"), (most, unit) => {
      const { top, step } = axisOf(most, unit);
      expect(top).toBeGreaterThanOrEqual(most);
      const marks = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => mark(i * step, step, unit));
      expect(new Set(marks).size).toBe(marks.length);
      expect(marks.length).toBeLessThanOrEqual(5);
    }),
  );
});

test("labels below are those of bars, at equal distances, with the last", () => {
  expect(ticks(14)).toEqual([1, 4, 7, 10, 13]);
  expect(ticks(1)).toEqual([0]);
  expect(ticks(0)).toEqual([]);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 400 }), (n) => {
      const found = ticks(n);
      expect(found.at(-1)).toBe(n - 1);
      expect(found.length).toBeLessThanOrEqual(5);
      expect(new Set(found.slice(1).map((each, i) => each - (found[i] ?? 0))).size).toBeLessThanOrEqual(1);
    }),
  );
});
