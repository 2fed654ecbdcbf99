// Opens the console as a person does; prints how long it took, and how fast its list scrolls.
import { createRequire } from "node:module";

const { chromium } = createRequire(`${process.cwd()}/`)("playwright-core");
const { link, chromium: program } = JSON.parse(process.argv[2]);
const base = new URL(link).origin;
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
const browser = await chromium.launch({ executablePath: program, args: flags, headless: true });
const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
page.setDefaultTimeout(60_000);
const ready = () => page.waitForFunction(() => !document.querySelector("[aria-busy=true]") && document.querySelector("h1"), null, { polling: "raf" });

// The first view of somebody who was here before: signed in, nothing cached.
await page.goto(link);
await page.waitForSelector(".figures");
await ready();

async function open(path, selector) {
  const times = [];
  for (let n = 0; n < 5; n++) {
    const session = await page.context().newCDPSession(page);
    await session.send("Network.clearBrowserCache");
    await page.goto("about:blank");
    const start = performance.now();
    await page.goto(base + path, { waitUntil: "commit" });
    await page.waitForSelector(selector);
    await ready();
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[2];
}

const first_ms = await open("/", ".figures");
const runs_ms = await open("/runs", "[data-run]");
// Frames while the wheel turns, for as long as pages are loaded, too.
await page.mouse.move(600, 500);
await page.evaluate(() => {
  window.frames_ = [];
  const note = (at) => (window.frames_.push(at), requestAnimationFrame(note));
  requestAnimationFrame(note);
});
for (let n = 0; n < 300; n++) {
  await page.mouse.wheel(0, 240);
  await page.waitForTimeout(12);
}
const taken = await page.evaluate(() => window.frames_);
const gaps = taken.slice(1).map((at, n) => at - taken[n]).sort((a, b) => a - b);
const frames = (1000 * gaps.length) / (taken.at(-1) - taken[0]);
const rows = await page.locator(".listfoot span").first().innerText();
console.log(JSON.stringify({ first_ms, runs_ms, frames, p95_gap_ms: gaps[Math.floor(gaps.length * 0.95)], rows }));
await browser.close();
