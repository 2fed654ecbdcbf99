/** Axes and lines of charts. */
import { duration } from "./format";

/** What the values of a chart are. */
export type Unit = "count" | "dollars" | "ms";

const S = 1_000;
const MIN = 60 * S;
const H = 60 * MIN;
const STEPS_OF_TIME = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 20, 30].map((n) => n * S),
  ...[1, 2, 5, 10, 20, 30].map((n) => n * MIN),
  ...[1, 2, 6, 12, 24].map((n) => n * H),
];

/** The axis of values of a unit. */
export function axisOf(most: number, unit: Unit): { top: number; step: number } {
  if (unit !== "ms") return axis(most, unit === "dollars");
  const step = STEPS_OF_TIME.find((each) => each >= most / 2) ?? 24 * H * Math.ceil(most / (48 * H));
  return { top: Math.max(step * Math.ceil(most / step), step), step };
}

/** A mark of an axis: 0, 25, 20 k, $0.05, 2 s. */
export function mark(value: number, step: number, unit: Unit): string {
  if (unit === "dollars") return price(value, step);
  if (value === 0) return "0";
  if (unit === "ms") return duration(value);
  const [by, name] = value >= 1e9 ? [1e9, " G"] : value >= 1e6 ? [1e6, " M"] : value >= 1e4 ? [1e3, " k"] : [1, ""];
  return `${(value / by).toLocaleString("en-US", { maximumFractionDigits: 2 })}${name}`;
}

/** Which of *n* labels are written below: the last one, and those of equal distance before it. */
export function ticks(n: number, most = 5): number[] {
  const each = Math.max(Math.ceil(n / most), 1);
  return Array.from({ length: n }, (_, i) => i).filter((i) => (n - 1 - i) % each === 0);
}

/** The end of an axis that reads well, and its step: a whole number, except in dollars. */
export function axis(most: number, dollars = false): { top: number; step: number } {
  if (most <= 0) return { top: 2, step: 1 };
  const rough = dollars ? most / 2 : Math.max(most / 2, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough && (dollars || Number.isInteger(n))) ?? 10 * power;
  return { top: Math.max(step * Math.ceil(most / step), step), step };
}

/** $0.005, $0.05, $25: as many digits as the step of the axis needs. */
export function price(value: number, step: number): string {
  const digits = [0, 2, 3, 4, 5].find((n) => Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) < 1e-6) ?? 6;
  return `$${value.toFixed(digits)}`;
}

/** The path of a line through *values* in a box, past those that are missing; the largest value touches the top. */
export function line(values: readonly (number | null)[], width: number, height: number, top = 3): string {
  const most = Math.max(...values.map((value) => value ?? 0), 1e-9);
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  const bottom = height - 2;
  const points = values.flatMap((value, i) =>
    value === null ? [] : `${(i * step).toFixed(1)} ${(bottom - (value / most) * (bottom - top)).toFixed(1)}`,
  );
  if (points.length === 1) return `M${points[0]}h${values.at(-1) === null ? 3 : -3}`; // one value is a stroke
  return points.map((point, i) => `${i ? "L" : "M"}${point}`).join(" ");
}

/** A line that is broken where there is no value; a value alone is a short stroke. */
export function path(
  values: readonly (number | null)[],
  x: (i: number) => number,
  y: (value: number) => number,
): string {
  const pieces: string[] = [];
  values.forEach((value, i) => {
    if (value === null) return;
    const before = i > 0 ? values[i - 1] : null;
    const after = i + 1 < values.length ? values[i + 1] : null;
    pieces.push(`${before == null ? "M" : "L"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`);
    if (before == null && after == null) pieces.push("m-5 0h5");
  });
  return pieces.join(" ");
}
