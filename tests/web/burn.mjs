// Plays Burn with two people in two browsers; prints what they see as one JSON document.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { chromium } from "playwright-core";

const { url, chromium: program, shots } = JSON.parse(process.argv[2]);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
flags.push("--disable-background-networking", "--disable-component-update", "--disable-sync");
const browser = await chromium.launch({ executablePath: program, args: flags, headless: true });
const seen = { errors: [], axe: [], wide: [], behind: [], requests: new Set() };

/** A browser of its own: another profile, so another cookie. */
async function open() {
  // A background that is still on its way between two themes has the contrast of neither.
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "light", reducedMotion: "reduce" });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (request) => seen.requests.add(new URL(request.url()).origin));
  return page;
}

async function check(page, name) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  // The dark theme changes nothing but colors.
  const found = await page.evaluate(async () => (await window.axe.run({ resultTypes: ["violations"], ...(matchMedia("(prefers-color-scheme: dark)").matches && { runOnly: ["color-contrast"] }) })).violations.map((each) => [each.impact, each.id, each.nodes.map((node) => node.target.join(" "))]));
  for (const [impact, id, nodes] of found) if (["serious", "critical"].includes(impact)) seen.axe.push([name, id, nodes]);
  if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) seen.wide.push(name);
  if (shots) await page.screenshot({ path: `${shots}/${name.replaceAll(" ", "-")}.png` });
}

const enter = async (page, name) => {
  await page.fill("input[name=username]", name);
  await page.keyboard.press("Enter");
};
const say = async (page, text) => {
  await page.fill("#message", text);
  await page.keyboard.press("Enter");
};
const texts = (page, selector) => page.locator(selector).allInnerTexts();

const alice = await open();
const bob = await open();
await alice.goto(url);
await alice.waitForURL(/\/welcome$/);
seen.theme = await alice.evaluate(() => document.documentElement.dataset.theme);
await check(alice, "welcome");
await enter(alice, "Not a name");
seen.refused = await alice.locator("[role=alert]").innerText();
await enter(alice, "alice");
await alice.waitForURL(/\/threads\//);
await alice.waitForSelector("text=Who are you?");
seen.cookie = await alice.evaluate(() => document.cookie);
const thread = alice.url();

// A new thread is there in one step, then back to the first.
await alice.click("text=New thread");
await alice.waitForURL((at) => at.href !== thread && /\/threads\//.test(at.href));
await alice.waitForSelector("h1:has-text('Untitled thread 2')");
await alice.click("nav >> text=Untitled thread 1");

// Bob joins by link; his name is his.
await bob.goto(thread.replace("/threads/", "/join/"));
await bob.waitForURL(/welcome\?next=/);
await enter(bob, "alice");
seen.taken = await bob.locator("[role=alert]").innerText();
await enter(bob, "bob");
await bob.waitForURL(thread);
await alice.waitForSelector(".sys:has-text('bob joined the thread')");

// Facts and jokes.  Text of a user is text.
await say(bob, "<img src=x onerror=alert(1)>\nI like opera");
await bob.waitForSelector(".facts-list >> text=opera");
for (const hobby of ["chess", "cooking", "hiking", "sailing"]) {
  await say(alice, `I like ${hobby}`);
  await alice.waitForSelector(`.facts-list >> text=${hobby}`);
}
await bob.waitForSelector("text=jerry on");
await bob.waitForSelector("text=frankie on");
seen.jokes = (await texts(bob, ".bubble")).filter((each) => / joke /.test(each));
seen.escaped = (await texts(alice, ".bubble")).filter((each) => each.includes("<img"));

// The computer, with its filters.
seen.facts = await texts(bob, ".facts-list li b");
await bob.fill("input[aria-label='Filter memory']", "CHESS");
seen.filtered = await texts(bob, ".facts-list li b");
await bob.fill("input[aria-label='Filter memory']", "");
await bob.fill("input[aria-label='Filter processes']", "frankie");
seen.processes = await texts(bob, ".sect td .chip");
await bob.fill("input[aria-label='Filter processes']", "");

for (const [width, height] of [[1440, 900], [1024, 800], [390, 844]]) {
  await alice.setViewportSize({ width, height });
  for (const theme of ["dark", "light"]) {
    await alice.evaluate((name) => (document.documentElement.dataset.theme = name), theme);
    await alice.waitForTimeout(100); // the log follows its end through another width
    seen.behind.push(await alice.locator(".log").evaluate((log) => Math.round(log.scrollHeight - log.scrollTop - log.clientHeight)));
    await check(alice, `chat ${width} ${theme}`);
  }
}
await alice.click(".toggle-right");
await check(alice, "computer 390");
await alice.click("[aria-label='Close computer']");
await alice.click(".toggle-left");
await check(alice, "threads 390");
await alice.click("[aria-label='Close threads']");
await alice.setViewportSize({ width: 1440, height: 900 });

// Edit: who owns removes; the producer stays; a name reaches everybody.
await bob.click("[aria-label='Edit thread']");
seen.removable = await texts(bob, "dialog button:has-text('Remove')");
await bob.click("text=Done");
await alice.click("[aria-label='Edit thread']");
await check(alice, "edit");
seen.owned = await alice.locator("dialog [aria-label^='Remove ']").evaluateAll((all) => all.map((each) => each.ariaLabel));
await alice.fill("#name", "Hobbies");
await alice.click("dialog >> text=Save");
await bob.waitForSelector("h1:has-text('Hobbies')");
await alice.click("[aria-label='Remove jerry']");
await check(alice, "confirm");
await alice.click("dialog footer >> text=Remove jerry");
await bob.waitForSelector(".sys:has-text('alice removed jerry')");
await alice.click("text=Done");
await bob.waitForSelector("[aria-label='Processes'] h3:has-text('2 agents')");

// Theme and session survive loading the page again; logging out ends it.
await bob.click("[aria-label^='Theme']");
await bob.reload();
await bob.waitForSelector("h1:has-text('Hobbies')");
seen.kept = await bob.evaluate(() => document.documentElement.dataset.theme);
seen.context = (await texts(bob, "[aria-label=Events] summary .end")).map((each) => Number(each.slice(1)));
await bob.click("[aria-label='Log out']");
await bob.waitForURL(/\/welcome/);
// A token that has ended is remembered for some seconds.
seen.status = await bob.evaluate(async () => {
  for (const end = Date.now() + 10_000; Date.now() < end; await new Promise((then) => setTimeout(then, 200))) {
    const { status } = await fetch("/sync/threads?offset=-1");
    if (status !== 200) return status;
  }
});
console.log(JSON.stringify({ ...seen, requests: [...seen.requests] }));
await browser.close();
