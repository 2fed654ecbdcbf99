/** Small charts as our own SVG: bars and lines over the same labels. */
import { axis, path, price } from "../data/axes";
import { count, money } from "../data/format";
import { isNarrow } from "../data/local";

type Ink = "accent" | "ok" | "running" | "person" | "retry" | "failed" | "idle";

interface Series {
  ink: Ink;
  values: readonly (number | null)[];
  dash?: boolean;
}

interface ChartProps {
  /** What a screen reader reads in place of the picture. */
  label: string;
  labels: readonly string[];
  series: readonly Series[];
  /** The width of the drawing: 640 beside another one, 1110 alone. */
  width?: number;
  /** Values in dollars; without it they are whole numbers. */
  dollars?: boolean;
}

const [LEFT, TOP, BOTTOM] = [42, 10, 102];

interface AxesProps {
  top: number;
  step: number;
  labels: readonly string[];
  left: number;
  width: number;
  dollars?: boolean | undefined;
}

function Axes({ top, step, labels, left, width: right, dollars }: AxesProps) {
  const y = (value: number) => BOTTOM - (value / top) * (BOTTOM - TOP);
  const marks = [];
  for (let value = 0; value <= top + step / 1000; value += step) marks.push(value);
  const ticks = labels.length > 1 ? [0, 0.25, 0.5, 0.75, 1].map((part) => Math.round(part * (labels.length - 1))) : [];
  return (
    <>
      {marks.map((value) => (
        <g key={value}>
          <path className="grid" d={`M${left} ${y(value).toFixed(1)}H${right}`} />
          <text x={left - 6} y={y(value) + 3.5} textAnchor="end">
            {dollars ? price(value, step) : value >= 1000 ? `${value / 1000} k` : count(value)}
          </text>
        </g>
      ))}
      {ticks.map((i, n) => (
        <text
          key={i}
          x={left + 2 + (i / (labels.length - 1)) * (right - left - 4)}
          y={118}
          textAnchor={n === 0 ? "start" : n === ticks.length - 1 ? "end" : "middle"}
        >
          {labels[i]}
        </text>
      ))}
    </>
  );
}

function highest(series: readonly Series[]): number {
  return Math.max(0, ...series.flatMap((each) => each.values.map((value) => value ?? 0)));
}

export function StackedBars({ label, labels, series, width: wide = 640, dollars }: ChartProps) {
  const right = isNarrow() ? 640 : wide;
  const sums = labels.map((_, i) => series.reduce((sum, each) => sum + (each.values[i] ?? 0), 0));
  const { top, step } = axis(Math.max(0, ...sums), dollars);
  const left = dollars ? (right > 640 ? 50 : 62) : LEFT;
  const width = (right - left - 4) / Math.max(labels.length, 1);
  const height = (value: number) => (value / top) * (BOTTOM - TOP);
  return (
    <svg className="chart" viewBox={`0 0 ${right} 122`} role="img" aria-label={label}>
      <Axes top={top} step={step} labels={labels} left={left} width={right} dollars={dollars} />
      {labels.map((name, i) => {
        let at = BOTTOM;
        return (
          <g key={i}>
            <title>{`${name}: ${series.map((each) => (dollars ? money(each.values[i] ?? 0) : (each.values[i] ?? 0))).join(", ")}`}</title>
            {series.map((each) => {
              const size = height(each.values[i] ?? 0);
              at -= size;
              return size > 0 ? (
                <rect
                  key={each.ink}
                  className={`f-${each.ink}`}
                  x={left + 2 + i * width}
                  y={at}
                  width={Math.max(width - 2, 1)}
                  height={size}
                />
              ) : null;
            })}
          </g>
        );
      })}
    </svg>
  );
}

export function LineChart({ label, labels, series, width: right = 640 }: ChartProps) {
  const { top, step } = axis(highest(series));
  const x = (i: number) => LEFT + 2 + (i / Math.max(labels.length - 1, 1)) * (right - LEFT - 4);
  const y = (value: number) => BOTTOM - (value / top) * (BOTTOM - TOP);
  return (
    <svg className="chart" viewBox={`0 0 ${right} 122`} role="img" aria-label={label}>
      <Axes top={top} step={step} labels={labels} left={LEFT} width={right} />
      {series.map((each) => (
        <path key={each.ink} className={`ln s-${each.ink}${each.dash ? " dash" : ""}`} d={path(each.values, x, y)} />
      ))}
    </svg>
  );
}
