// Rows that runs changed: the list with its filters, the page of a run, and taking it back by an approver.
import { apart, end, everywhere, open, options, seen, signIn } from "./browsing.mjs";

const { link, run, viewer } = options;
const base = new URL(link).origin;
const texts = async (of) => (await of.allInnerTexts()).map((each) => each.replaceAll(/\s+/g, " ").trim().replace(/^.* ago (triage v1 run \d+ )?/, ""));
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

// How right the agent was, with the way to what was not.
await page.goto(`${base}/agents/triage`);
await page.waitForSelector("section[aria-label=Accuracy] tbody tr");
seen.accuracy = await texts(page.locator("section[aria-label=Accuracy] tbody tr"));
await everywhere(page, "accuracy");
await page.click("section[aria-label=Accuracy] tbody a");
await page.waitForFunction(() => document.querySelectorAll(".chg").length === 1);
seen.wrong = new URL(page.url()).search;

// A viewer reads what was changed, and takes nothing back.
const theirs = await open(await apart());
await signIn(theirs, `${base}/runs/${run}`, viewer);
await theirs.waitForSelector("#changes .chg");
seen.hidden = await texts(theirs.locator("#changes .chg"));
seen.offered = await theirs.locator("text=Take back").count();
await everywhere(theirs, "viewer");

// An approver looks first, then takes it back; the page of the run leads to the other.
const take = async (button) => {
  await page.goto(`${base}/runs/${run}`);
  await page.click("#changes >> text=Take back…");
  await page.waitForSelector("dialog[open]");
  if (button === "Look first") await everywhere(page, "dialog");
  await page.click(`dialog >> text="${button}"`);
  await page.waitForURL((at) => at.pathname !== `/runs/${run}`);
  await page.waitForSelector("#rows .chg");
  await page.waitForFunction(() => /taken back|nothing of run/.test(document.querySelector(".notice")?.innerText ?? ""));
  return [await texts(page.locator(".notice p").first()), await texts(page.locator("#rows .chg"))];
};
seen.looked = await take("Look first");
seen.taken = await take("Take back");
await everywhere(page, "revert");
await page.goto(`${base}/runs/${run}`);
await page.waitForSelector(".notice >> text=took it back");
await page.waitForSelector("#changes .chg");
await settled(page);
seen.reverts = await page.locator(".notice a").count();
seen.again = await page.locator("text=Take back…").count();
await everywhere(page, "run");

// What somebody has changed since is refused, with both values.
await page.goto(`${base}/runs/${options.corrected}`);
await page.waitForSelector("#corrections .chg");
await everywhere(page, "corrected");
await page.click("#changes >> text=Take back…");
await page.click('dialog >> text="Take back"');
await page.waitForSelector("#rows .chg");
seen.refused = await texts(page.locator("#rows .chg"));
await page.waitForSelector(".notice.failed");
await everywhere(page, "refused");
await end();
