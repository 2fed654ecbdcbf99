// A browser of one script, and what is found wrong with what it shows.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { chromium } from "playwright-core";

export const options = JSON.parse(process.argv[2]);
const { shots } = options;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
flags.push("--disable-background-networking", "--disable-component-update", "--disable-sync");
const browser = await chromium.launch({ executablePath: options.chromium, args: flags, headless: true });
export const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "light", reducedMotion: "reduce", timezoneId: "Europe/Berlin" });
context.setDefaultTimeout(20_000);
export const seen = { errors: [], axe: [], wide: [], dialogs: 0, requests: new Set(), sockets: [] };

process.on("uncaughtException", (error) => {
  console.error(JSON.stringify({ ...seen, requests: [...seen.requests] }, null, 1), error);
  process.exit(1);
});

export async function open() {
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (request) => seen.requests.add(new URL(request.url()).origin));
  page.on("websocket", (socket) => socket.on("framereceived", () => seen.sockets.push(new URL(socket.url()).pathname)));
  page.on("dialog", (dialog) => void ((seen.dialogs += 1), dialog.dismiss()));
  return page;
}

/** All rules, or those of RULES. */
export async function check(page, name, rules) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const found = await page.evaluate(async (runOnly) => (await window.axe.run({ resultTypes: ["violations"], ...(runOnly && { runOnly }) })).violations.map((each) => [each.impact, each.id, each.nodes.map((node) => node.target.join(" "))]), rules);
  for (const [impact, id, nodes] of found) if (["serious", "critical"].includes(impact)) seen.axe.push([name, id, nodes.slice(0, 3)]);
  if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) seen.wide.push(name);
  if (shots) await page.screenshot({ path: `${shots}/${name.replaceAll(/[^a-z0-9]+/g, "-")}.png` });
}

/** At one width in both themes, of which the second changes nothing but colors. */
export async function checkThemes(page, name) {
  await check(page, `${name} light`);
  await page.emulateMedia({ colorScheme: "dark" });
  await check(page, `${name} dark`, ["color-contrast"]);
  await page.emulateMedia({ colorScheme: "light" });
}

export const resize = (page, width) => page.setViewportSize({ width, height: width === 390 ? 844 : 900 });

export async function end() {
  console.log(JSON.stringify({ ...seen, requests: [...seen.requests] }));
  await browser.close();
}
