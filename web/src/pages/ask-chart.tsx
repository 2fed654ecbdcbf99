/** Numbers over the text or time of their row, as bars. */
import { isNumber, type StepResult } from "../data/questions";
import { figure } from "../data/format";
import { Legend } from "../parts/chart";
import { Panel } from "../parts/panel";

const MOST = 24; // rows
const TONES = ["running", "idle", "ok"] as const;

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
  const inked = series.map((each, n) => ({ ...each, ink: TONES[n] ?? "running" }));
  return (
    <Panel
      title="Chart"
      end={<Legend series={inked} />}
      foot={result.rows.length > MOST ? `The first ${MOST} rows.` : undefined}
    >
      <ul className="hbars" aria-label={`${series.map(({ name }) => name).join(", ")} by ${result.columns[over]?.[0]}`}>
        {rows.map((row, n) => (
          <li key={n}>
            <span className="name clip" title={row[over] ?? undefined}>
              <bdi>{row[over] ?? "NULL"}</bdi>
            </span>
            <span className="values">
              {inked.map(({ at, ink }) => (
                <span key={at}>
                  <svg style={{ width: `${(100 * Number(row[at] ?? 0)) / most}%` }} aria-hidden="true">
                    <rect className={`f-${ink}`} width="100%" height="100%" />
                  </svg>
                  {figure(row[at])}
                </span>
              ))}
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
