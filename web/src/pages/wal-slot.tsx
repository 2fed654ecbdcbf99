/** A slot: what it retains, how far it is read, drawn to scale. */
import { Link } from "@tanstack/react-router";

import { bytes, number } from "../data/format";
import { Panel } from "../parts/panel";
import { Time } from "../parts/time";

export interface WalRow {
  slot: string;
  plugin: string;
  generation: number;
  epoch: string;
  reader: string | null;
  checkpoint: string;
  updated_at: string;
  abandoned_at: string | null;
  active: boolean | null;
  wal_status: string | null;
  restart_lsn: string | null;
  confirmed: string | null;
  safe_wal_size: string | null;
  current: string | null;
  retained: string | null;
  lag: string | null;
  keep_size: string;
  tables: number;
}

export function Slot({ row }: { row: WalRow }) {
  return (
    <>
      <Panel
        title={
          <>
            Slot <span className="mono">{row.slot}</span>
          </>
        }
        aside={
          <>
            <span className="chip mono">{row.plugin}</span>
            <span className="chip">generation {row.generation}</span>
          </>
        }
        end={
          <span className="legend">
            <Swatch ink="f-idle" text="kept by the slot" />
            <Swatch ink="f-accent" text="ingested, not confirmed" />
            <Swatch ink="f-retry" text="not ingested" />
          </span>
        }
        flush
      >
        <div className="body">
          <Ruler row={row} />
        </div>
        <div className="grid-3 wal-kv">
          <dl className="kv">
            <dt>Retained</dt>
            <dd>
              {row.retained === null ? "no slot" : bytes(row.retained)}{" "}
              {row.keep_size !== "-1" && (
                <>
                  of {row.keep_size.replace(/(\d)([kMGT]?B)$/, "$1 $2")} <code>max_slot_wal_keep_size</code>
                </>
              )}
            </dd>
            <dt>wal_status</dt>
            <dd className="mono">{row.wal_status ?? "none"}</dd>
            <dt>Safe</dt>
            <dd>
              {row.safe_wal_size === null
                ? "without limit: max_slot_wal_keep_size is -1"
                : `${bytes(row.safe_wal_size)} more before the slot is lost`}
            </dd>
          </dl>
          <dl className="kv">
            <dt>Checkpoint</dt>
            <dd className="mono">{row.checkpoint}</dd>
            <dt>Advanced</dt>
            <dd>
              <Time at={row.updated_at} />
            </dd>
            <dt>Epoch</dt>
            <dd>
              {number(row.epoch)}
              {row.reader && (
                <>
                  , held by <span className="mono">{row.reader}</span>
                </>
              )}
            </dd>
          </dl>
          <dl className="kv">
            <dt>Oldest</dt>
            <dd className="mono">{row.restart_lsn}</dd>
            <dt>Confirmed</dt>
            <dd className="mono">{row.confirmed}</dd>
            <dt>Server</dt>
            <dd className="mono">{row.current}</dd>
            <dt>Tables</dt>
            <dd>
              <Link to="/tables">{row.tables}</Link>
            </dd>
          </dl>
        </div>
      </Panel>
    </>
  );
}

function Swatch({ ink, text }: { ink: string; text: string }) {
  return (
    <span>
      <svg viewBox="0 0 12 10" aria-hidden="true">
        <rect className={ink} width="12" height="10" />
      </svg>
      {text}
    </span>
  );
}

/** An LSN as a number of bytes. */
function position(lsn: string | null): number {
  const [high = "0", low = "0"] = (lsn ?? "0/0").split("/");
  return parseInt(high, 16) * 2 ** 32 + parseInt(low, 16);
}

const [START, END, ROOM] = [10, 1_110, 200];

/** From the oldest byte that the slot retains to the end of the server's WAL, to scale. */
function Ruler({ row }: { row: WalRow }) {
  const from = position(row.restart_lsn);
  const until = Math.max(position(row.current), from + 1);
  const at = (lsn: string | null) =>
    START + Math.min(Math.max((position(lsn) - from) / (until - from), 0), 1) * (END - START);
  const confirmed = at(row.confirmed);
  const checkpoint = Math.max(at(row.checkpoint), confirmed);
  const beside = (x: number, toTheLeft: boolean) =>
    toTheLeft ? ({ x: x - 4, textAnchor: "end" } as const) : ({ x: x + 4, textAnchor: "start" } as const);
  const parts: [string, number, number][] = [
    ["f-idle", START, confirmed],
    ["f-accent", confirmed, checkpoint],
    ["f-retry", checkpoint, END],
  ];
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="Ruler of the WAL">
      <div className="ruler">
        <svg
          className="chart"
          viewBox="0 0 1120 96"
          role="img"
          aria-label={`WAL from ${row.restart_lsn}: confirmed to ${row.confirmed}, ingested to ${row.checkpoint}, written to ${row.current}; ${bytes(row.lag)} not confirmed`}
        >
          <rect className="f-track" x={START} y="26" width={END - START} height="14" rx="2" />
          {parts.map(
            ([ink, left, right]) =>
              right > left && <rect key={ink} className={ink} x={left} y="26" width={right - left} height="14" />,
          )}
          {[START, confirmed, checkpoint, END].map((x, i) => (
            <path
              key={i}
              className="axis"
              d={`M${x} ${i === 0 || i === 3 ? 18 : 26}V${[48, 68, confirmed > ROOM ? 90 : 48, 48][i]}`}
            />
          ))}
          <text x={START} y="12">
            <tspan className="strong">restart_lsn</tspan> {row.restart_lsn}
          </text>
          <text x={END} y="12" textAnchor="end">
            <tspan className="strong">end of WAL</tspan> {row.current}
          </text>
          <text {...beside(confirmed, confirmed > ROOM)} y="66">
            <tspan className="strong">confirmed</tspan> {row.confirmed}
          </text>
          <text {...beside(checkpoint, checkpoint > END - ROOM)} y="88">
            <tspan className="strong">checkpoint</tspan> {row.checkpoint}
          </text>
        </svg>
      </div>
    </div>
  );
}
