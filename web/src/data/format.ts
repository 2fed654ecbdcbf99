/** Numbers, times and money as the whole console writes them. */
import { now } from "./clock";

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function number(value: number | string | null | undefined): string {
  return value === null || value === undefined || value === "" ? "" : grouped.format(Number(value));
}

/** A number of a result as it was written, with thousands, and without zeros at its end: 11,075.5. */
export function figure(text: string | null | undefined): string {
  const [, sign = "", whole = "", rest = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text ?? "") ?? [];
  if (!whole) return text ?? "NULL";
  const digits = rest.replace(/0+$/, "");
  return `${sign}${whole.replace(/\B(?=(\d{3})+$)/g, ",")}${digits && `.${digits}`}`;
}

/** A count: 12,408, and 1.2 M from a million on. */
export function count(value: number | string | null | undefined): string {
  const n = Number(value ?? 0);
  if (n >= 999.95e6) return `${(n / 1e9).toFixed(1)} G`;
  return n >= 1e6 ? `${(n / 1e6).toFixed(1)} M` : number(n);
}

/** A count that ended at a limit is marked. */
export function atLeast(value: number | string, isLeast: boolean): string {
  return isLeast ? `${number(value)}+` : number(value);
}

/** Dollars: four digits below a cent; a model without a price has none. */
export function money(value: number | string | null | undefined): string {
  if (value === null || value === undefined || value === "") return "no price";
  const n = Number(value);
  if (n < 0) return `-${money(-n)}`;
  if (n > 0 && n < 0.00005) return "<$0.0001";
  if (n === 0) return "$0.00";
  return n < 0.01
    ? `$${n.toFixed(4)}`
    : `$${n.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** A duration in milliseconds: 54 ms, 1.1 s, 4 min 7 s, 3 h 5 min, 6 d 23 h. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms < 0.95) return ms <= 0 ? "0 ms" : "<1 ms";
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  const s = ms / 1_000;
  if (s < 59.95) return `${s < 10 ? s.toFixed(1).replace(/\.0$/, "") : Math.round(s)} s`;
  const whole = Math.round(s);
  if (whole < 3_600) return two(whole, 60, "min", 1, "s");
  return whole < 86_400 ? two(whole, 3_600, "h", 60, "min") : two(whole, 86_400, "d", 3_600, "h");
}

function two(s: number, large: number, largeName: string, small: number, smallName: string): string {
  const first = Math.floor(s / large);
  const rest = Math.floor((s - first * large) / small);
  return rest ? `${first} ${largeName} ${rest} ${smallName}` : `${first} ${largeName}`;
}

export function bytes(value: number | string | null | undefined): string {
  if (value === null || value === undefined || value === "") return "";
  let n = Number(value);
  if (Math.abs(n) < 1_024) return `${n} B`;
  for (const unit of ["kB", "MB", "GB", "TB"]) {
    n /= 1_024;
    if (Math.abs(n) < 1_023.5) return `${n < 10 ? n.toFixed(1).replace(/\.0$/, "") : Math.round(n)} ${unit}`;
  }
  return `${Math.round(n / 1_024)} PB`;
}

export function percent(part: number, whole: number): string {
  if (!whole) return "";
  const value = (100 * part) / whole;
  return `${value < 1 && value > 0 ? value.toFixed(2) : Math.round(value)} %`;
}

const WEEK = 7 * 86_400_000;

/** Relative up to seven days by the database's clock, else the date. */
export function relative(iso: string, zone: string, short = false): string {
  const at = Date.parse(iso);
  const ago = now() - at;
  if (Math.abs(ago) > WEEK) return day(iso, zone);
  const text = coarse(Math.abs(ago));
  if (ago < 0) return `in ${fine(-ago)}`;
  if (text === "now") return text;
  return short ? text : `${text} ago`;
}

function coarse(ms: number): string {
  const s = Math.floor(ms / 1_000);
  if (s < 1) return "now";
  if (s < 60) return `${s} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min`;
  return s < 86_400 ? `${Math.floor(s / 3_600)} h` : `${Math.floor(s / 86_400)} d`;
}

function fine(ms: number): string {
  return ms < 1_000 ? "1 s" : duration(Math.floor(ms / 1_000) * 1_000);
}

export function day(iso: string, zone: string): string {
  return new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: zone }).format(
    new Date(iso),
  );
}

/** The time of day, such as 08:05. */
export function clock(iso: string | number, zone: string): string {
  return new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: zone }).format(new Date(iso));
}

export function minute(iso: string, zone: string): string {
  return `${day(iso, zone)}, ${clock(iso, zone)}`;
}

/** The instant in the page's zone and in UTC, to the millisecond. */
export function absolute(iso: string, zone: string): string {
  const at = new Date(iso);
  const time = (timeZone: string) =>
    new Intl.DateTimeFormat("en-GB", {
      day: "numeric",
      month: "short",
      year: "numeric",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      fractionalSecondDigits: 3,
      timeZone,
    }).format(at);
  const utc = `${time("UTC")} UTC`;
  return zone === "UTC" ? utc : `${time(zone)} ${zone}\n${utc}`;
}

/** A value as one word of a command that is copied into a shell: others choose names and keys. */
export function shellWord(value: string): string {
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", String.raw`'\''`)}'`;
}

/** The table without the schema that need not be named, as psql shows it. */
export function tableName(relation: string): string {
  return relation.replace(/^public\./, "");
}
