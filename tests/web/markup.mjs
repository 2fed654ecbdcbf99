// Opens pages whose texts are markup, and clicks through them; prints what became of it as one JSON document.
import { chromium } from "playwright-core";

const { link, paths, name, chromium: program, shots } = JSON.parse(process.argv[2]);
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
flags.push("--disable-background-networking", "--disable-component-update", "--disable-sync");
const browser = await chromium.launch({ executablePath: program, args: flags, headless: true });
const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
context.setDefaultTimeout(20_000);
const page = await context.newPage();
const seen = { dialogs: 0, made: [], shown: {}, requests: new Set(), refused: [] };
page.on("dialog", (dialog) => void ((seen.dialogs += 1), dialog.dismiss()));
page.on("request", (request) => seen.requests.add(new URL(request.url()).origin));
page.on("console", (message) => /Content Security Policy/.test(message.text()) && seen.refused.push(message.text()));

/** Elements, attributes and addresses that only a text could have made. */
async function look(where) {
  const made = await page.evaluate(() => {
    const found = [...document.querySelectorAll("*")].filter((each) => [...each.attributes].some((one) => /^on/i.test(one.name) || /^\s*(javascript|data:text)/i.test(one.value)));
    found.push(...document.querySelectorAll("iframe, object, embed, base, form[action], img[src='x'], marquee"));
    return [...found.map((each) => each.outerHTML.slice(0, 200)), ...(globalThis.owned ? ["owned"] : [])];
  });
  seen.made.push(...made.map((each) => [where, each]));
  const texts = (await page.locator("body").innerText()) + (await page.title());
  seen.shown[where] = (texts.match(/onerror=owned/g) ?? []).length;
}

const base = new URL(link).origin;
if (name) {
  await page.goto(link);
  await page.fill("input[name=username]", name);
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/threads\//);
} else {
  await page.goto(link);
  await page.waitForURL(`${base}/`);
}
for (const path of paths) {
  await page.goto(base + path);
  await page.waitForLoadState("domcontentloaded");
  await page.waitForFunction(() => !document.querySelector("[aria-busy=true], .skeleton") && document.body.innerText.length > 80).catch(() => {});
  await page.waitForFunction(() => document.body.innerText.includes("onerror=owned"), null, { timeout: 4000 }).catch(() => {});
  await look(path);
  // What opens on the page, and what is shown when the pointer is over it.
  for (const each of (await page.locator("summary, [role=tab], button[aria-expanded=false]").all()).slice(0, 25)) await each.click({ timeout: 500 }).catch(() => {});
  await page.waitForTimeout(150);
  await look(`${path} opened`);
  if (shots) await page.screenshot({ path: `${shots}/markup${path.replaceAll(/[^a-z0-9]+/gi, "-")}.png`, fullPage: true });
}
seen.requests = [...seen.requests];
console.log(JSON.stringify(seen, null, 1));
await browser.close();
