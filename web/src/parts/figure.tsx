/** A figure with its sparkline, which leads to its rows. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { line } from "../data/axes";
import type { Address } from "./address";

type Ink = "accent" | "ok" | "running" | "person" | "retry" | "failed" | "idle";

export function Sparkline({
  values,
  ink = "accent",
  width = 120,
  height = 26,
}: {
  values: readonly (number | null)[];
  ink?: Ink;
  width?: number;
  height?: number;
}) {
  return (
    <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      {values.length > 1 && <path className={`ln s-${ink}`} d={line(values, width, height)} />}
    </svg>
  );
}

/** Bars of equal width, such as failures by hour. */
export function Bars({
  values,
  ink = "failed",
  width = 96,
  height = 18,
}: {
  values: readonly number[];
  ink?: Ink;
  width?: number;
  height?: number;
}) {
  const most = Math.max(...values, 1e-9);
  const each = width / Math.max(values.length, 1);
  return (
    <svg className="spk" viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      {values.map((value, i) => {
        const size = value ? Math.max((value / most) * (height - 2), 1.5) : 0;
        return size ? (
          <rect
            key={i}
            className={`f-${ink}`}
            x={i * each}
            y={height - size}
            width={Math.max(each - 1, 1)}
            height={size}
          />
        ) : null;
      })}
    </svg>
  );
}

/** How much of a limit is used. */
export function Meter({
  part,
  whole,
  ink = "accent",
  className,
}: {
  part: number;
  whole: number;
  ink?: Ink;
  className?: string;
}) {
  const width = whole > 0 ? Math.min(part / whole, 1) : 0;
  return className ? (
    <svg className={className} viewBox="0 0 200 6" preserveAspectRatio="none" aria-hidden="true">
      <rect className="f-track" width="200" height="6" rx="3" />
      {width > 0 && <rect className={`f-${ink}`} width={Math.max(width * 200, 2)} height="6" rx="3" />}
    </svg>
  ) : (
    <svg viewBox="0 0 120 26" preserveAspectRatio="none" aria-hidden="true">
      <rect className="f-track" y="15" width="120" height="6" />
      {width > 0 && <rect className={`f-${ink}`} y="15" width={width * 120} height="6" />}
    </svg>
  );
}

interface FigureProps {
  address: Address;
  label: string;
  aside?: ReactNode;
  value: ReactNode;
  small?: ReactNode;
  children?: ReactNode;
}

export function Figure({ address, label, aside, value, small, children }: FigureProps) {
  return (
    <Link {...address}>
      <span className="label">
        {label}
        {aside && <span className="muted">{aside}</span>}
      </span>
      <span className="value">
        {value ?? <span className="muted">no data</span>} {small && <small>{small}</small>}
      </span>
      {children ?? <svg viewBox="0 0 120 26" aria-hidden="true" />}
    </Link>
  );
}
