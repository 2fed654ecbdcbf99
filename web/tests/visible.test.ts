import { expect, test } from "vitest";

import { visible } from "../src/data/visible";

test("what is not seen is shown as what it is", () => {
  expect(visible("goodwill\u202e")).toBe("goodwill\\u{202e}");
  expect(visible("a\u200bb\u00adc\u3164d\u{e0041}")).toBe("a\\u{200b}b\\u{ad}c\\u{3164}d\\u{e0041}");
  expect(visible("\u001b[31m\u0007")).toBe("\\u{1b}[31m\\u{7}");
});

test("what is seen stays", () => {
  const text = "Grüße, 漢字, שלום, 🙂 and\ttabs\nand lines";
  expect(visible(text)).toBe(text);
});
