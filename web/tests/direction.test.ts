import { expect, test } from "vitest";

const files = import.meta.glob<string>("../{src,burn}/**/*.tsx", { query: "?raw", import: "default", eager: true });

test("what people and models write has the direction of its script", () => {
  const without = Object.entries(files).flatMap(([name, text]) =>
    Array.from(text.matchAll(/<\w+[^<]*?className="(?:bubble|said)[^>]*>/g), ([tag]) => tag)
      .filter((tag) => !tag.includes('dir="auto"'))
      .map((tag) => `${name}: ${tag}`),
  );
  expect(Object.values(files).join("")).toContain('className="bubble" dir="auto"');
  expect(without).toEqual([]);
});
