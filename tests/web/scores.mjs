// Runs to score: the list, what a person says, and where that is shown.
import { apart, end, everywhere, open, options, seen, signIn } from "./browsing.mjs";

const { link, run, viewer } = options;
const base = new URL(link).origin;
const texts = async (of) => (await of.allInnerTexts()).map((each) => each.replaceAll(/\s+/g, " ").trim().replace(/^.* ago /, ""));
const settled = (at) => at.waitForFunction(() => !document.querySelector("[aria-busy=true]"));

const page = await open();
await page.goto(link);
await page.waitForSelector(".figures");
await page.goto(`${base}/changes`);
await page.click(".tabs >> text=To score");
await page.waitForSelector(".chg");
seen.listed = await texts(page.locator(".chg"));
await everywhere(page, "list");

// Who may only look has no buttons.
const theirs = await open(await apart());
await signIn(theirs, `${base}/changes?tab=unscored`, viewer);
await theirs.waitForSelector(".chg");
seen.offered = await theirs.locator(".chg button").count();

// Wrong is asked for a note; the row stays, with what was said.
const first = page.locator(`.chg[aria-label="Run ${run}"]`);
await first.getByRole("button", { name: "Wrong…" }).click();
await page.waitForSelector("dialog[open]");
await everywhere(page, "dialog");
await page.fill("dialog textarea", "It was <b>a bug</b>.");
await page.click("dialog >> text=It was wrong");
await first.locator(".st").waitFor();
seen.said = await texts(first.locator(".st"));
await page.locator(".chg button", { hasText: "Right" }).first().click();
await page.waitForFunction(() => document.querySelectorAll(".chg .st").length === 2);
await everywhere(page, "said");
await page.reload();
await page.waitForSelector("text=No run of the last 7 days is to be scored");
await everywhere(page, "none");
await page.goto(`${base}/changes?tab=unscored&agent=nobody`);
await page.waitForSelector("text=The last 7 days were searched");

// On the page of the run, where it can be said anew; and in the accuracy of the agent.
await page.goto(`${base}/runs/${run}#scores`);
await page.waitForSelector("#scores .chg");
seen.score = (await page.locator("#scores .chg").allInnerTexts()).map((each) => each.replaceAll(/\s+/g, " ").trim());
await everywhere(page, "run");
await page.locator("#scores").getByRole("button", { name: "Not sure" }).click();
await page.waitForSelector("#scores .st >> text=not sure");
await page.goto(`${base}/agents/triage`);
await page.waitForSelector("section[aria-label=Accuracy] tbody tr");
await settled(page);
seen.accuracy = await texts(page.locator("section[aria-label=Accuracy] tbody tr"));
await theirs.goto(`${base}/runs/${run}`);
await theirs.waitForSelector("#scores .chg");
seen.read = await theirs.locator("#scores button").count();
await end();
