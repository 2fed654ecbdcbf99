// Looks at pages while the daemon is killed and started again; prints what it saw as JSON.
import { writeFileSync } from "node:fs";

import { check, context, end, everywhere, open, options, seen } from "./browsing.mjs";

const base = new URL(options.link).origin;
context.setDefaultTimeout(60_000);
seen.loads = [];

const first = await open();
await first.goto(options.link);
await first.waitForSelector(".figures");
const paths = ["/", "/runs", "/runs/1", "/approvals", "/failed", "/wal"];
const pages = new Map();
for (const path of paths) {
  const page = path === "/" ? first : await open();
  if (path !== "/") await page.goto(base + path);
  page.on("framenavigated", (frame) => frame === page.mainFrame() && seen.loads.push(path));
  pages.set(path, page);
}
await pages.get("/runs").waitForSelector("[data-run='8']");
await pages.get("/runs/1").waitForSelector("text=waiting for approval");
await pages.get("/approvals").waitForSelector("form.decide");
await pages.get("/failed").waitForSelector("summary");
await pages.get("/wal").waitForSelector("[aria-label=Readers] tbody tr");
seen.loads = [];

// The daemon is killed: each page says so, and keeps what it shows.
process.kill(options.pid, "SIGKILL");
for (const [path, page] of pages) {
  await page.bringToFront();
  await page.waitForSelector(".banner:has-text('Reconnecting')");
  await everywhere(page, `away ${path}`);
}
const kept = (page, selector) => page.locator(selector).count();
seen.kept = [await kept(pages.get("/"), ".figures .value"), await kept(pages.get("/runs"), "[data-run]"), await kept(pages.get("/runs/1"), "section.step"), await kept(pages.get("/approvals"), ".side a.item"), await kept(pages.get("/failed"), "summary"), await kept(pages.get("/wal"), "[aria-label=Readers] tbody tr")];
seen.mark = await first.locator(".live").innerText();

// A decision is not sent into the void: the button is off, and the key says so.
const approvals = pages.get("/approvals");
await approvals.bringToFront();
seen.off = await approvals.locator("form.decide button").evaluateAll((all) => all.every((each) => each.disabled));
await approvals.locator("h2.big").click();
await approvals.keyboard.press("a");
await approvals.waitForSelector("text=Not sent: the page has no connection.");
await check(approvals, "away-action");

// It is started again: each page catches up without a reload.
writeFileSync(options.away, "");
const caught = [];
for (const [path, page] of pages) {
  await page.bringToFront();
  await page.waitForSelector(".live:has-text('Live')");
  caught.push(path);
}
seen.caught = caught;
await pages.get("/runs").waitForSelector("[data-run='10']");
await pages.get("/").bringToFront();
await pages.get("/").waitForSelector(".figures a:first-child .value:has-text('10')");
await pages.get("/failed").bringToFront();
await pages.get("/failed").waitForSelector("summary .n:text-is('3'), summary :text-is('3')");
await pages.get("/approvals").bringToFront();
await pages.get("/approvals").waitForFunction(() => document.querySelectorAll(".side a.item").length === 3);
await pages.get("/wal").bringToFront();
await pages.get("/wal").waitForSelector("[aria-label=Readers] :text-is('reading')");
for (const [path, page] of pages) await check(page, `back ${path}`);

await end();
