/** Texts of others: what a reader does not see is shown as what it is. */

// Control characters but tab and newline, what turns the direction of writing, what is not seen.
const UNSEEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Show unseen characters as walagent does everywhere: `\u{202e}`. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (found) => `\\u{${found.codePointAt(0)?.toString(16)}}`);
}
