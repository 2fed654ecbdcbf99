/** The difference between two texts: by lines, and in changed lines by words. */

export interface Part {
  text: string;
  isMarked: boolean;
}

export interface DiffLine {
  kind: "same" | "del" | "add";
  /** In the old text for `del`, else in the new one. */
  number: number;
  parts: readonly Part[];
}

/** Above this, rows times columns, the whole middle is shown as replaced. */
const MOST = 1_000_000;

/** Pairs of indexes of a longest common subsequence. */
function common(a: readonly string[], b: readonly string[]): [number, number][] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const found: [number, number][] = Array.from({ length: start }, (_, i) => [i, i]);
  const rows = a.length - start - end;
  const columns = b.length - start - end;
  if (rows * columns && rows * columns <= MOST) {
    const width = columns + 1;
    const length = new Uint32Array((rows + 1) * width);
    const at = (i: number, j: number) => length[i * width + j] ?? 0;
    for (let i = rows - 1; i >= 0; i--)
      for (let j = columns - 1; j >= 0; j--)
        length[i * width + j] =
          a[start + i] === b[start + j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    for (let i = 0, j = 0; i < rows && j < columns;)
      if (a[start + i] === b[start + j]) found.push([start + i++, start + j++]);
      else if (at(i + 1, j) >= at(i, j + 1)) i++;
      else j++;
  }
  for (let i = end; i > 0; i--) found.push([a.length - i, b.length - i]);
  return found;
}

function marked(words: readonly string[], kept: ReadonlySet<number>): Part[] {
  const parts: Part[] = [];
  words.forEach((text, i) => {
    const last = parts.at(-1);
    const isMarked = !kept.has(i);
    if (last?.isMarked === isMarked) last.text += text;
    else parts.push({ text, isMarked });
  });
  return parts;
}

/** The lines of both texts, in order: what was removed before what was added. */
export function diff(before: string, after: string): DiffLine[] {
  const a = before ? before.split("\n") : [];
  const b = after ? after.split("\n") : [];
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  const changed = (toA: number, toB: number) => {
    const dels: DiffLine[] = [];
    const adds: DiffLine[] = [];
    const pairs = Math.min(toA - i, toB - j);
    for (let n = 0; i + n < toA || j + n < toB; n++) {
      const [old, now] = [a[i + n], b[j + n]];
      if (n < pairs && old !== undefined && now !== undefined) {
        const [was, is] = [old.split(/(\s+)/), now.split(/(\s+)/)];
        const same = common(was, is);
        dels.push({ kind: "del", number: i + n + 1, parts: marked(was, new Set(same.map(([left]) => left))) });
        adds.push({ kind: "add", number: j + n + 1, parts: marked(is, new Set(same.map(([, right]) => right))) });
      } else if (i + n < toA)
        dels.push({ kind: "del", number: i + n + 1, parts: [{ text: old ?? "", isMarked: false }] });
      else adds.push({ kind: "add", number: j + n + 1, parts: [{ text: now ?? "", isMarked: false }] });
    }
    lines.push(...dels, ...adds);
  };
  for (const [left, right] of common(a, b)) {
    changed(left, right);
    lines.push({ kind: "same", number: right + 1, parts: [{ text: b[right] ?? "", isMarked: false }] });
    i = left + 1;
    j = right + 1;
  }
  changed(a.length, b.length);
  return lines;
}
