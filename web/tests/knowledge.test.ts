import { describe, expect, it } from "vitest";

import { relationText, sourceLink, wrongDocument } from "../src/data/documents";
import { memoryParams, memoryTokens } from "../src/data/memory";

describe("a document", () => {
  it("needs a title and a text, of the sizes that the table takes", () => {
    expect(wrongDocument(" ", "x")).toMatch(/title/);
    expect(wrongDocument("x", "\n")).toMatch(/text is needed/);
    expect(wrongDocument("😀".repeat(1_000), "x")).toBeUndefined();
    expect(wrongDocument("x".repeat(1_001), "x")).toMatch(/1,000/);
    expect(wrongDocument("x", "é".repeat(524_288))).toBeUndefined();
    expect(wrongDocument("x", "é".repeat(524_289))).toMatch(/1 MB/);
  });

  it("links only to addresses of the web", () => {
    expect(sourceLink("https://wiki.example/a")).toBe("https://wiki.example/a");
    for (const other of ["", "a file", "javascript:alert(1)", "data:text/html,x", "https://a b", " https://a"])
      expect(sourceLink(other)).toBeUndefined();
  });

  it("reads a relation from its own side", () => {
    expect(relationText("supersedes", false)).toBe("supersedes");
    expect(relationText("supersedes", true)).toBe("is superseded by");
    expect(relationText("of_a_later_version", true)).toBe("of_a_later_version");
  });
});

describe("a filter of memories", () => {
  it("marks what no memory can be", () => {
    expect(memoryTokens({ state: "live,lost", agent: "lost", q: "x" })).toEqual([
      { name: "agent", value: "lost" },
      { name: "state", value: "live,lost", invalid: "One of live, disputed, replaced, withdrawn, expired" },
    ]);
  });

  it("gives every parameter of the query", () => {
    expect(memoryParams({ key: "a" })).toEqual({
      agent: "",
      kind: "",
      about: "",
      key: "a",
      trust: "",
      state: "",
      q: "",
    });
  });
});
