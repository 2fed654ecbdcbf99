// Rows that runs changed: the list with its filters, the page of a run, and taking it back by an approver.
import { apart, end, everywhere, open, options, seen, signIn } from "./browsing.mjs";

const { link, run, viewer } = options;
const base = new URL(link).origin;
const texts = async (of) => (await of.allInnerTexts()).map((each) => each.replaceAll(/\s+/g, " ").trim().replace(/^.* ago triage v1 run \d+ /, ""));
const settled = (at) => at.waitForFunction(() => !document.querySelector("[aria-busy=true]"));

const page = await open();
await page.goto(link);
await page.waitForSelector(".figures");
await page.keyboard.press("g");
await page.keyboard.press("c");
await page.waitForSelector(".chg");
seen.listed = await texts(page.locator(".chg"));
await everywhere(page, "list");

// Filters are in the address; a word without a name is a key.
const bar = page.getByRole("combobox", { name: "Filter changes" });
const shown = async (count) => {
  await page.waitForFunction((wanted) => !document.querySelector("[aria-busy=true]") && document.querySelectorAll(".chg").length === wanted, count);
  return page.locator(".chg").count();
};
seen.filtered = [];
for (const [typed, count] of options.filters) {
  await bar.fill(typed);
  await page.keyboard.press("Enter");
  seen.filtered.push([new URL(page.url()).search, await shown(count)]);
  await page.goto(`${base}/changes`);
  await page.waitForSelector(".chg");
}
await page.goto(`${base}/changes?run=lately`);
await page.waitForSelector(".token.invalid");
await page.goto(`${base}/changes?agent=nobody`);
await page.waitForSelector("text=Nothing matches");
await everywhere(page, "nothing");
await page.click("text=Clear the filter");
await page.waitForSelector(".chg");

// What others changed of it.
await page.click(".tabs >> text=Corrections");
await page.waitForFunction(() => document.querySelectorAll(".chg").length === 1);
seen.tabs = await texts(page.locator(".tabs [aria-current]"));
seen.corrected = await texts(page.locator(".chg"));
await everywhere(page, "corrections");
await end();
