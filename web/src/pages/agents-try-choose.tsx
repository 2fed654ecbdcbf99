/** The rows that an agent is tried on. */
import { type Candidates, type Texts } from "../data/trials";
import { Dialog } from "../parts/confirm";

/** Rows that are tried at once. */
const MOST = 10;

export function ChooseRows({
  found,
  keys,
  onChange,
  onClose,
}: {
  found: Candidates;
  keys: readonly string[];
  onChange: (keys: readonly string[]) => void;
  onClose: () => void;
}) {
  const summary = (content: Texts) =>
    Object.entries(content)
      .map(([name, value]) => `${name} ${value ?? "NULL"}`)
      .join(" · ");
  return (
    <Dialog
      title="Choose rows"
      className="edit"
      onClose={onClose}
      foot={
        <button type="button" className="btn primary" onClick={onClose}>
          Take {keys.length} {keys.length === 1 ? "row" : "rows"}
        </button>
      }
    >
      <div className="body">
        <p className="soft">
          The last {found.rows.length} rows of {found.table} by primary key, as {found.run_as} sees them; up to {MOST}{" "}
          at once.
        </p>
        <ul>
          {found.rows.map((row) => (
            <li key={row.key}>
              <label className="check">
                <input
                  type="checkbox"
                  checked={keys.includes(row.key)}
                  disabled={!keys.includes(row.key) && keys.length >= MOST}
                  onChange={(event) =>
                    onChange(event.target.checked ? [...keys, row.key] : keys.filter((key) => key !== row.key))
                  }
                />
                <span className="wrapped">
                  <b className="mono">{row.key}</b> <span className="muted">{summary(row.content).slice(0, 160)}</span>
                </span>
              </label>
            </li>
          ))}
        </ul>
      </div>
    </Dialog>
  );
}
