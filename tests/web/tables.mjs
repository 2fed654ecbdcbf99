// Looks at rows of a table and asks why they have runs, or none; prints what it saw as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { chromium } from "playwright-core";

const { link, viewer, chromium: program, shots } = JSON.parse(process.argv[2]);
const base = new URL(link).origin;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
flags.push("--disable-background-networking", "--disable-component-update", "--disable-sync");
const browser = await chromium.launch({ executablePath: program, args: flags, headless: true });
const seen = { axe: [], wide: [] };

async function open() {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
  context.setDefaultTimeout(20_000);
  return context.newPage();
}

async function check(page, name) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  // The dark theme changes nothing but colors.
  const found = await page.evaluate(async () => (await window.axe.run({ resultTypes: ["violations"], ...(matchMedia("(prefers-color-scheme: dark)").matches && { runOnly: ["color-contrast"] }) })).violations.map((each) => [each.impact, each.id, each.nodes.map((node) => node.target.join(" "))]));
  for (const [impact, id, nodes] of found) if (["serious", "critical"].includes(impact)) seen.axe.push([name, id, nodes.slice(0, 3)]);
  if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) seen.wide.push(name);
  if (shots) await page.screenshot({ path: `${shots}/${name}.png` });
}

const page = await open();
await page.goto(link);
await page.waitForSelector(".figures");
for (const theme of ["light", "dark"]) {
  await page.emulateMedia({ colorScheme: theme });
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 844 });
    await page.goto(`${base}/tables/public.ticket`);
    await page.locator("button:text-is('Why')").first().click();
    await page.waitForSelector(".reasons section");
    await check(page, `why-${width}-${theme}`);
  }
}
seen.why = await page.locator(".reasons:visible").innerText();
await page.goto(`${base}/tables/public.ticket?key=4711`);
await page.locator("button:text-is('Why')").first().click();
await page.waitForSelector(".reasons section");
seen.whyNot = await page.locator(".reasons:visible").innerText();
await check(page, "why-not");

// A viewer without a login sees no row.
const other = await open();
await other.goto(`${base}/sign-in`);
await other.evaluate((token) => fetch("v1/session", { method: "POST", headers: { "content-type": "application/json", "x-walagent-request": "1" }, body: JSON.stringify({ token }) }), viewer);
await other.goto(`${base}/tables/public.ticket`);
await other.waitForSelector("text=not its rows");
seen.refused = await other.locator("section[aria-label='Not shown']").innerText();
seen.rows = await other.locator("tbody tr").count();
await check(other, "refused");
await other.setViewportSize({ width: 390, height: 844 });
await other.emulateMedia({ colorScheme: "dark" });
await check(other, "refused-390-dark");
await browser.close();
console.log(JSON.stringify(seen));
