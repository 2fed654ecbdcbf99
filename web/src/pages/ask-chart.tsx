/** Numbers over the text or time of their row, as bars. */
import { isNumber, type StepResult } from "../data/questions";
import { Panel } from "../parts/panel";

const MOST = 24; // rows
const TONES = ["running", "idle", "ok"] as const;
const [LABEL, BAR, ROOM, WIDTH] = [110, 11, 6, 340];

export default function Chart({ result }: { result: StepResult }) {
  const over = result.columns.findIndex(([, type]) => !isNumber(type));
  const series = result.columns
    .map(([name, type], at) => ({ name, type, at }))
    .filter(({ type, at }) => isNumber(type) && at !== over)
    .slice(0, TONES.length);
  const rows = result.rows.slice(0, MOST);
  const values = rows.flatMap((row) => series.map(({ at }) => Number(row[at] ?? 0)));
  const most = Math.max(...values, 0);
  if (
    over < 0 ||
    series.length === 0 ||
    rows.length < 2 ||
    most <= 0 ||
    values.some((each) => !Number.isFinite(each) || each < 0)
  )
    return null;
  const high = series.length * BAR + ROOM;
  const names = series.map(({ name }) => name).join(", ");
  return (
    <Panel
      title="Chart"
      end={
        <span className="legend">
          {series.map(({ name }, n) => (
            <span key={name}>
              <svg viewBox="0 0 12 10" aria-hidden="true">
                <rect className={`f-${TONES[n]}`} width="12" height="10" />
              </svg>
              {name}
            </span>
          ))}
        </span>
      }
      foot={result.rows.length > MOST ? `The first ${MOST} rows.` : undefined}
    >
      <svg
        className="chart cap"
        viewBox={`0 0 ${WIDTH} ${rows.length * high}`}
        role="img"
        aria-label={`${names} by ${result.columns[over]?.[0]}`}
      >
        {rows.map((row, n) => (
          <g key={n} transform={`translate(0 ${n * high})`}>
            <text x={LABEL - 6} y={high / 2 + 2} textAnchor="end">
              {(row[over] ?? "NULL").slice(0, 16)}
            </text>
            {series.map(({ at }, which) => (
              <rect
                key={at}
                className={`f-${TONES[which]}`}
                x={LABEL}
                y={which * BAR}
                height={BAR - 1}
                width={Math.max((Number(row[at] ?? 0) / most) * (WIDTH - LABEL - 50), 1)}
              />
            ))}
            <text x={LABEL + (Number(row[series[0]?.at ?? 0] ?? 0) / most) * (WIDTH - LABEL - 50) + 4} y={BAR - 1}>
              {row[series[0]?.at ?? 0]}
            </text>
          </g>
        ))}
      </svg>
    </Panel>
  );
}
