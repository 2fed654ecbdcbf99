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

// A group of failures shows its reason in full.
await resize(page, 1440);
await page.goto(`${base}/failed`);
await page.click("details.grp summary:has-text('the provider refused')");
seen.reason = (await page.locator(".gbody").innerText()).includes(options.end);
await end();
