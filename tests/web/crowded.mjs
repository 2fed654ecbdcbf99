// Lists of thousands of runs: how far a search goes, where Back returns, and reasons in full.
import { end, open, options, resize, seen } from "./browsing.mjs";

const base = new URL(options.link).origin;
const page = await open();
await page.goto(options.link);
await page.waitForSelector(".figures");

// A search that found nothing in the newest runs says so, and goes on.
await page.goto(`${base}/runs?q=zebra`);
await page.waitForSelector("text=No match so far");
seen.partial = await page.locator(".howfar span").innerText();
await page.click("text=Search older runs");
await page.waitForSelector("[data-run]");
await page.waitForSelector(".howfar", { state: "detached" });
seen.found = [await page.locator("[data-run]").count(), await page.locator(".filterbar .muted").innerText()];

// Back returns to the row, however many pages were loaded, and to what comes after the page.
const goBack = async (path, far, link) => {
  await page.goto(base + path);
  await page.waitForSelector(link);
  for (let n = 0; n < 30 && (await page.evaluate(() => scrollY)) < far; n += 1) {
    await page.mouse.wheel(0, 600);
    await page.waitForTimeout(100);
  }
  const before = await page.evaluate(() => scrollY);
  const near = page.locator(link);
  const at = await near.evaluateAll((all) => all.findIndex((each) => each.getBoundingClientRect().top > 120));
  const name = await near.nth(at).innerText();
  await near.nth(at).click();
  await page.waitForFunction((from) => location.pathname !== from, path);
  await page.waitForSelector("h1");
  await page.waitForTimeout(300);
  await page.goBack();
  await page.waitForSelector(link);
  await page.waitForFunction((y) => Math.abs(scrollY - y) < 40, before, { timeout: 6_000 }).catch(() => {});
  const after = await page.evaluate(() => scrollY);
  const rows = await page.locator(link).allInnerTexts();
  return [Math.abs(after - before) < 40, rows.includes(name)];
};
await page.mouse.move(700, 500);
seen.back = [await goBack("/runs", 9_000, "[data-run] a"), await goBack("/agents", 300, "td a.strong")];
await resize(page, 390);
seen.back.push(await goBack("/runs", 5_000, "[data-run] a"));

// Each run has its agent and what it wrote; states are counted; bars lead to their runs.
await resize(page, 1440);
await page.goto(`${base}/runs?key=8`);
await page.waitForSelector("[data-run='8']");
seen.cells = (await page.locator("[data-run='8'] td").allInnerTexts()).slice(4, 6);
await page.goto(`${base}/runs`);
await page.waitForSelector(".facets a");
seen.facets = (await page.locator(".facets a").allInnerTexts()).map((each) => each.replaceAll(/\s+/g, " ").trim());
await page.locator(".facets a:has-text('failed')").click();
await page.waitForURL(/state=failed/);
await page.locator(".plot a").first().focus();
seen.bar = await page.locator(".plot a").first().getAttribute("aria-label");

// The list of threads goes on below the first hundred.
await page.goto(`${base}/threads`);
for (let n = 0; n < 40 && (await page.locator("aside.threads a.item").count()) < 230; n += 1) {
  await page.locator("aside.threads > :last-child").scrollIntoViewIfNeeded();
  await page.waitForTimeout(200);
}
seen.threads = await page.locator("aside.threads a.item[href*='/threads/']").count();

// A group of failures shows its reason in full.
await resize(page, 1440);
await page.goto(`${base}/failed`);
await page.click("details.grp summary:has-text('the provider refused')");
seen.reason = (await page.locator(".gbody").innerText()).includes(options.end);
// A message of one's own is shown, also to who has scrolled up; what was typed outlives a reload.
await resize(page, 1440);
await page.goto(`${base}/threads/${options.thread}`);
const log = page.locator(".log");
for (let n = 0; n < 25; n += 1) {
  await page.fill("#message", `Line ${n}\n\n\n\nand its end`);
  await page.keyboard.press("Enter");
}
await page.waitForSelector("text=Line 24");
await log.evaluate((at) => at.scrollTo({ top: 0 }));
await page.waitForTimeout(200);
await page.fill("#message", "Mine is the last");
await page.keyboard.press("Enter");
await page.waitForSelector("text=Mine is the last");
await page.waitForTimeout(500);
seen.mine = await log.evaluate((at) => at.scrollHeight - at.scrollTop - at.clientHeight < 80);
await page.fill("#message", "Not sent yet");
await page.reload();
await page.waitForSelector("#message");
seen.typed = await page.inputValue("#message");
await page.fill("#message", "");

// A page that was not open yet opens without the server; and one that waits for its first answer says so.
await page.goto(`${base}/`);
await page.waitForSelector(".figures");
await page.waitForTimeout(3_000);
await page.route("**/*", (route) => route.abort());
await page.click("nav >> text=Cost");
await page.waitForSelector("h1:has-text('Cost')");
seen.away = new URL(page.url()).pathname;
await page.unrouteAll({ behavior: "ignoreErrors" });
await page.route("**/v1/session", async (route) => {
  await new Promise((later) => setTimeout(later, 3_000));
  await route.continue();
});
await page.goto(`${base}/runs`, { waitUntil: "commit" });
await page.waitForSelector("text=The server has not answered yet", { timeout: 2_900 });
await page.waitForSelector("[data-run]");
await page.unrouteAll({ behavior: "ignoreErrors" });

// Who may not see all runs is told so.
await page.goto(`${base}/`);
await page.waitForSelector(".figures");
await page.context().clearCookies();
await page.goto(`${base}/sign-in`);
await page.fill("input[type=password]", options.token);
await page.keyboard.press("Enter");
await page.waitForSelector("text=You see your own runs");
seen.own = [await page.locator(".head .st").count()];
await page.goto(`${base}/runs`);
await page.waitForSelector("text=No run of your own");
await page.goto(`${base}/failed`);
await page.waitForSelector("text=None of your runs failed");
await end();
