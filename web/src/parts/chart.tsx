/** Charts of values over labels: shapes are SVG in per cents, texts are HTML, and each label has its values. */
import { Link, type LinkProps } from "@tanstack/react-router";
import { type KeyboardEvent, useRef, useState } from "react";

import { axisOf, mark, path, ticks, type Unit } from "../data/axes";
import { duration, money, number } from "../data/format";

export type Ink = "accent" | "ok" | "running" | "person" | "retry" | "failed" | "idle";

export interface Series {
  name: string;
  ink: Ink;
  values: readonly (number | null)[];
  dash?: boolean;
}

interface ChartProps {
  /** What a screen reader calls it. */
  label: string;
  labels: readonly string[];
  series: readonly Series[];
  unit?: Unit;
  /** Bars are stacked; lines are broken where there is no value. */
  kind?: "bars" | "lines";
  /** Where the runs of a label are. */
  link: (i: number) => LinkProps;
  /** Without an axis of values, above a list. */
  isSmall?: boolean;
}

/** A value in full, with its unit. */
function inWords(value: number | null, unit: Unit): string {
  if (value === null) return "none";
  return unit === "dollars" ? money(value) : unit === "ms" ? duration(value) : number(value);
}

const percent = (part: number) => `${(100 * part).toFixed(3)}%`;

export function Chart({ label, labels, series, unit = "count", kind = "bars", link, isSmall = false }: ChartProps) {
  const n = labels.length;
  const sums = labels.map((_, i) => series.map((each) => each.values[i] ?? 0));
  const most = Math.max(
    0,
    ...sums.map((each) => (kind === "bars" ? each.reduce((a, b) => a + b, 0) : Math.max(...each))),
  );
  const { top, step } = axisOf(most, unit);
  const marks = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => i * step);
  return (
    <div className={`plot${isSmall ? " small" : ""}`} role="group" aria-label={label}>
      {!isSmall && (
        <div className="y" aria-hidden="true">
          {marks.map((value) => (
            <span key={value} style={{ bottom: percent(value / top) }}>
              {mark(value, step, unit)}
            </span>
          ))}
        </div>
      )}
      <div className="area">
        <svg viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true">
          {!isSmall &&
            marks.map((value) => <path key={value} className="grid" d={`M0 ${100 - (100 * value) / top}H1000`} />)}
          {kind === "bars" ? <Bars series={series} n={n} top={top} /> : <Lines series={series} n={n} top={top} />}
        </svg>
        <Points labels={labels} series={series} unit={unit} link={link} />
      </div>
      <div className="x" aria-hidden="true">
        {ticks(n).map((i) => (
          <span key={i} style={{ left: percent((i + 0.5) / n) }}>
            {labels[i]}
          </span>
        ))}
      </div>
    </div>
  );
}

function Bars({ series, n, top }: { series: readonly Series[]; n: number; top: number }) {
  const width = 1000 / n;
  return Array.from({ length: n }, (_, i) => {
    let at = 100;
    return series.map(({ ink, values }, which) => {
      const height = (100 * (values[i] ?? 0)) / top;
      at -= height;
      return height > 0 ? (
        <rect
          key={`${i} ${which}`}
          className={`f-${ink}`}
          x={(i + 0.06) * width}
          y={at}
          width={width * 0.88}
          height={height}
        />
      ) : null;
    });
  });
}

function Lines({ series, n, top }: { series: readonly Series[]; n: number; top: number }) {
  const x = (i: number) => ((i + 0.5) * 1000) / n;
  const y = (value: number) => 100 - (100 * value) / top;
  return series.map(({ name, ink, dash, values }) => (
    <path key={name} className={`ln s-${ink}${dash ? " dash" : ""}`} d={path(values, x, y)} />
  ));
}

/** One place for each label: it says its values, and leads to its runs; arrows go from one to the next. */
function Points({ labels, series, unit, link }: Pick<ChartProps, "labels" | "series" | "link"> & { unit: Unit }) {
  const [at, setAt] = useState(labels.length - 1);
  const [shown, setShown] = useState<number | null>(null);
  const all = useRef<HTMLDivElement>(null);
  const go = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -labels.length, End: labels.length }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = Math.min(Math.max(at + by, 0), labels.length - 1);
    setAt(next);
    all.current?.querySelectorAll<HTMLElement>("a")[next]?.focus();
  };
  const said = (i: number) =>
    `${labels[i]}: ${series.map(({ name, values }) => `${name} ${inWords(values[i] ?? null, unit)}`).join(", ")}`;
  return (
    // eslint-disable-next-line jsx-a11y/no-static-element-interactions -- arrows move between its links
    <div className="points" ref={all} onKeyDown={go} onMouseLeave={() => setShown(null)}>
      {labels.map((_, i) => (
        <Link
          key={i}
          {...link(i)}
          activeProps={{}}
          aria-label={said(i)}
          tabIndex={i === Math.min(at, labels.length - 1) ? 0 : -1}
          onMouseEnter={() => setShown(i)}
          onFocus={() => (setShown(i), setAt(i))}
          onBlur={() => setShown(null)}
        />
      ))}
      {shown !== null && shown < labels.length && (
        <div
          className="tip"
          aria-hidden="true"
          style={
            shown < labels.length / 2
              ? { left: percent(shown / labels.length) }
              : { right: percent(1 - (shown + 1) / labels.length) }
          }
        >
          <b>{labels[shown]}</b>
          {series.map(({ name, ink, values }) => (
            <span key={name}>
              <Key ink={ink} /> {name} <span className="end">{inWords(values[shown] ?? null, unit)}</span>
            </span>
          ))}
        </div>
      )}
    </div>
  );
}

function Key({ ink, dash }: { ink: Ink; dash?: boolean | undefined }) {
  return (
    <svg viewBox="0 0 12 10" aria-hidden="true">
      {dash ? (
        <path className={`ln s-${ink} dash`} d="M0 5h12" />
      ) : (
        <rect className={`f-${ink}`} width="12" height="10" />
      )}
    </svg>
  );
}

export function Legend({ series }: { series: readonly Pick<Series, "name" | "ink" | "dash">[] }) {
  return (
    <span className="legend">
      {series.map(({ name, ink, dash }) => (
        <span key={name}>
          <Key ink={ink} dash={dash} />
          {name}
        </span>
      ))}
    </span>
  );
}
