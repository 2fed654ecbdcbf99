/** What the trials of all rows came to, side by side. */
import { duration, money } from "../data/format";
import { Refused } from "../data/request";
import { type Candidate, median } from "../data/trials";
import { type Result } from "./agents-try-row";

interface SumsProps {
  rows: readonly Candidate[];
  names: readonly [string, string];
  of: (row: Candidate, side: 0 | 1) => Result | undefined;
  hasDraft: boolean;
}

export function Sums({ rows, names, of, hasDraft }: SumsProps) {
  const runs = ([0, 1] as const).map((side) =>
    rows.flatMap((row) => {
      const tried = of(row, side);
      return tried && !(tried instanceof Refused) && tried.run ? [tried.run] : [];
    }),
  );
  const [was = [], is = []] = runs;
  const line = (title: string, value: (of: typeof was) => number | null, text: (value: number) => string) => {
    const [before, after] = [value(was), value(is)];
    const change = before === null || after === null ? null : after - before;
    return (
      <tr>
        <td>{title}</td>
        <td>{before === null ? "" : text(before)}</td>
        {hasDraft && (
          <>
            <td>{after === null ? "" : text(after)}</td>
            <td className="num">
              {change === null ? "" : change === 0 ? "same" : `${change > 0 ? "+" : "−"}${text(Math.abs(change))}`}
            </td>
          </>
        )}
      </tr>
    );
  };
  const counted = (state: string) => (found: typeof was) =>
    found.length ? found.filter((run) => run.state === state).length : null;
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="Results">
      <table>
        <thead>
          <tr>
            <th>
              <span className="vh">Measure</span>
            </th>
            <th>{names[0]}</th>
            {hasDraft && (
              <>
                <th>{names[1]}</th>
                <th className="num">Difference</th>
              </>
            )}
          </tr>
        </thead>
        <tbody>
          {line("Succeeded", counted("succeeded"), String)}
          {line("Would wait for approval", counted("waiting_approval"), String)}
          {line(
            "Cost",
            (found) =>
              found.some((run) => run.cost !== null) ? found.reduce((sum, run) => sum + (run.cost ?? 0), 0) : null,
            money,
          )}
          {line("Time, median", (found) => median(found.map((run) => run.ms)), duration)}
        </tbody>
      </table>
    </div>
  );
}
