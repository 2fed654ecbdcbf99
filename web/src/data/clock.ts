/** The database's clock: relative times follow it, not the one of this machine. */
let ahead = 0;
let known = false;

/** Note the time of the database, as an answer gave it. */
export function noteClock(now: string | undefined): void {
  const at = now ? Date.parse(now) : Number.NaN;
  if (Number.isNaN(at)) return;
  ahead = at - Date.now();
  known = true;
}

/** Milliseconds since 1970 by the database's clock. */
export function now(): number {
  return Date.now() + ahead;
}

/** Milliseconds by which the database's clock is ahead of this machine's. */
export function clockDifference(): number {
  return known ? ahead : 0;
}
