/** Rows as CSV (RFC 4180), which a spreadsheet opens without executing anything. */

const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^[+-]?\d+(\.\d+)?(e[+-]?\d+)?$/i;

/** One value: none is empty, an empty text is `""`, a text that would be a formula begins with `'`. */
function cell(value: string | number | null | undefined): string {
  if (value === null || value === undefined) return "";
  const text = String(value);
  const safe = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return safe === "" || /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(
  names: readonly string[],
  rows: readonly (readonly (string | number | null | undefined)[])[],
): string {
  return [names, ...rows].map((row) => row.map(cell).join(",")).join("\n");
}
