import { expect, test } from "vitest";

import { landing } from "../src/data/landing";

test.each([
  ["/runs?state=failed", "/runs?state=failed"],
  ["/sign-in", "/"],
  ["/sign-in?to=/runs", "/runs"],
  ["/sign-in?to=%2Fsign-in%3Fto%3D%252Fruns%253Fstate%253Ddead", "/runs?state=dead"],
  ["/sign-in?to=/sign-in?to=/sign-in?to=/runs", "/runs"],
  ["/sign-in?to=//evil.example", "/"],
  ["//evil.example/runs", "/"],
  ["/\\evil.example/runs", "/"],
  ["https://evil.example/", "/"],
  ["javascript:alert(1)", "/"],
  ["", "/"],
  [undefined, "/"],
])("after signing in, %s leads to %s", (to, wanted) => {
  expect(landing(to)).toBe(wanted);
});
