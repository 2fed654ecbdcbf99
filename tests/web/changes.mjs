// Opens the page of a run, its panel, and the list, as several people; prints what each sees as one JSON document.
import { chromium } from "playwright-core";

const { base, people, run, word, chromium: program, shots } = JSON.parse(process.argv[2]);
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: program, args, headless: true });
const seen = {};
for (const [name, token] of Object.entries(people)) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.goto(`${base}/sign-in`);
  await page.fill("input[type=password]", token);
  await page.keyboard.press("Enter");
  await page.waitForURL((at) => !at.pathname.startsWith("/sign-in"));
  const texts = {};
  for (const path of [`/runs/${run}`, `/runs?panel=${run}`, "/runs"]) {
    await page.goto(base + path);
    await page.waitForSelector(path === `/runs/${run}` ? "#s0" : `[data-run='${run}']`);
    await page.waitForFunction(() => !document.querySelector("[aria-busy=true]"));
    texts[path] = await page.locator("body").innerText();
    if (shots) await page.screenshot({ path: `${shots}/changes-${name}-${Object.keys(texts).length}.png`, fullPage: true });
  }
  const all = Object.values(texts).join("\n");
  seen[name] = { word: all.split(word).length - 1, hidden: (all.match(/columns? (is|are) hidden/g) ?? []).length, errors };
  await context.close();
}
await browser.close();
console.log(JSON.stringify(seen));
