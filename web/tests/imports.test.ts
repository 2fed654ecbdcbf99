import { expect, test } from "vitest";

const files = import.meta.glob<string>("../{src,burn}/**/*.{ts,tsx}", {
  query: "?raw",
  import: "default",
  eager: true,
});

/** The modules that *name* imports, as they are named in `files`. */
function imports(name: string): string[] {
  const found = Array.from(
    (files[name] ?? "").matchAll(/from "(\.[^"]+)"/g),
    ([, to]) => new URL(to ?? "", `file:///tests/${name}`).pathname,
  );
  return found.flatMap((path) => [".ts", ".tsx"].map((end) => `..${path}${end}`)).filter((each) => each in files);
}

test("no module imports itself in a circle", () => {
  const done = new Set<string>();
  const circle = (name: string, above: readonly string[]): string[] => {
    if (above.includes(name)) return [...above.slice(above.indexOf(name)), name];
    if (done.has(name)) return [];
    const found = imports(name).map((to) => circle(to, [...above, name]));
    done.add(name);
    return found.find((each) => each.length) ?? [];
  };
  expect(imports("../src/pages/runs.tsx")).toContain("../src/data/run-list.ts");
  for (const name of Object.keys(files)) expect(circle(name, [])).toEqual([]);
});
