// A browser of one script, and what is found wrong with what it shows.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";

import { chromium } from "playwright-core";

export const options = JSON.parse(process.argv[2]);
const { shots } = options;
const script = basename(process.argv[1], ".mjs");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
flags.push("--disable-background-networking", "--disable-component-update", "--disable-sync");
const browser = await chromium.launch({ executablePath: options.chromium, args: flags, headless: true });

/** Another browser: what somebody else has, with a cookie of their own. */
export async function apart() {
  // A background that is still on its way between two themes has the contrast of neither.
  const made = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "light", reducedMotion: "reduce", timezoneId: "Europe/Berlin" });
  made.setDefaultTimeout(20_000);
  return made;
}

export const context = await apart();
export const seen = { errors: [], axe: [], wide: [], dialogs: 0, requests: new Set(), sockets: [] };

process.on("uncaughtException", async (error) => {
  const pages = browser.contexts().flatMap((each) => each.pages());
  for (const [at, page] of pages.entries()) if (shots) await page.screenshot({ path: `${shots}/failed-${at}.png` }).catch(() => {});
  console.error(JSON.stringify({ ...seen, requests: [...seen.requests] }, null, 1), error);
  process.exit(1);
});

export async function open(within = context) {
  const page = await within.newPage();
  page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (request) => seen.requests.add(new URL(request.url()).origin));
  page.on("websocket", (socket) => socket.on("framereceived", () => seen.sockets.push(new URL(socket.url()).pathname)));
  page.on("dialog", (dialog) => (dialog.type() === "beforeunload" ? dialog.accept() : void ((seen.dialogs += 1), dialog.dismiss())));
  return page;
}

/** Open PATH as who has TOKEN, by way of the page that asks for it. */
export async function signIn(page, path, token) {
  await page.goto(path);
  await page.waitForURL(/\/sign-in/);
  await page.fill("input", token);
  await page.keyboard.press("Enter");
  await page.waitForURL((at) => !at.pathname.startsWith("/sign-in"));
}

/** Wait until the call on a page may be decided: it decides nothing that came on screen just now. */
export async function readCall(page) {
  await page.waitForSelector("form.decide");
  await page.waitForTimeout(700);
}

/** What axe finds by all rules, or by those of RULES, and whether the page is too wide. */
export async function check(page, name, rules) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const found = await page.evaluate(async (runOnly) => (await window.axe.run({ resultTypes: ["violations"], ...(runOnly && { runOnly }) })).violations.map((each) => [each.impact, each.id, each.nodes.map((node) => node.target.join(" "))]), rules);
  for (const [impact, id, nodes] of found) if (["serious", "critical"].includes(impact)) seen.axe.push([name, id, nodes.slice(0, 3)]);
  if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) seen.wide.push(name);
  if (shots) await page.screenshot({ path: `${shots}/${script}-${name.replaceAll(/[^a-z0-9]+/gi, "-")}.png` });
}

export const resize = (page, width) => page.setViewportSize({ width, height: width === 390 ? 844 : 900 });

/** At each width and in each theme that the test asks for; another theme changes nothing but colors. */
export async function everywhere(page, name) {
  const widths = new Set();
  for (const [width, theme] of options.views) {
    await page.emulateMedia({ colorScheme: theme });
    await resize(page, width);
    await check(page, `${name} ${width} ${theme}`, widths.has(width) ? ["color-contrast"] : undefined);
    widths.add(width);
  }
  await page.emulateMedia({ colorScheme: "light" });
  await resize(page, 1440);
}

export async function end() {
  console.log(JSON.stringify({ ...seen, requests: [...seen.requests] }));
  await browser.close();
}
