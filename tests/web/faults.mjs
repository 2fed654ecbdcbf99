// Looks at pages while the daemon is killed and started again; prints what it saw as JSON.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

import { chromium } from "playwright-core";

const { link, pid, away, chromium: program, shots } = JSON.parse(process.argv[2]);
const base = new URL(link).origin;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
flags.push("--disable-background-networking", "--disable-component-update", "--disable-sync");
const browser = await chromium.launch({ executablePath: program, args: flags, headless: true });
const seen = { errors: [], axe: [], wide: [], loads: [] };

const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
context.setDefaultTimeout(60_000);

async function check(page, name) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  // The dark theme changes nothing but colors.
  const found = await page.evaluate(async () => (await window.axe.run({ resultTypes: ["violations"], ...(matchMedia("(prefers-color-scheme: dark)").matches && { runOnly: ["color-contrast"] }) })).violations.map((each) => [each.impact, each.id, each.nodes.map((node) => node.target.join(" "))]));
  for (const [impact, id, nodes] of found) if (["serious", "critical"].includes(impact)) seen.axe.push([name, id, nodes.slice(0, 3)]);
  if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) seen.wide.push(name);
  if (shots) await page.screenshot({ path: `${shots}/${name}.png` });
}

const first = await context.newPage();
await first.goto(link);
await first.waitForSelector(".figures");
const paths = ["/", "/runs", "/runs/1", "/approvals", "/failed", "/wal"];
const pages = new Map();
for (const path of paths) {
  const page = path === "/" ? first : await context.newPage();
  if (path !== "/") await page.goto(base + path);
  page.on("pageerror", (error) => seen.errors.push(String(error)));
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
process.kill(pid, "SIGKILL");
for (const [path, page] of pages) {
  await page.bringToFront();
  await page.waitForSelector(".banner:has-text('Reconnecting')");
  for (const [theme, width] of [["light", 1440], ["dark", 1024], ["dark", 390]]) {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: 900 });
    await check(page, `away-${path.replaceAll("/", "-")}-${width}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1440, height: 900 });
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
writeFileSync(away, "");
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
for (const [path, page] of pages) await check(page, `back-${path.replaceAll("/", "-")}`);

console.log(JSON.stringify(seen));
await browser.close();
