// Looks at the two versions of an agent with a shadow, as a developer and as a viewer, and ends it; prints what it saw as one
// JSON document.
import { apart, end, everywhere, open, options, seen, signIn } from "./browsing.mjs";

const base = new URL(options.link).origin;
const texts = async (place) => (await place.allInnerTexts()).map((each) => each.replaceAll(/\s+/g, " ").trim());

const page = await open();
await page.goto(options.link);
await page.waitForURL((at) => !at.pathname.startsWith("/sign-in"));
await page.goto(`${base}/agents/triage`);
const section = page.locator("section[aria-label=Canary]");
await section.locator("tbody tr").nth(1).waitFor();
seen.compared = await texts(section.locator("tbody tr"));
seen.said = await texts(section.locator("p").first());
seen.links = await section.locator("tbody tr").nth(1).locator("a").count();
await everywhere(page, "shadow");

const theirs = await open(await apart());
await signIn(theirs, `${base}/agents/triage`, options.viewer);
await theirs.waitForSelector("section[aria-label=Canary] tbody tr");
seen.offered = await theirs.locator("section[aria-label=Canary] button").count();
await everywhere(theirs, "viewer");

await section.locator("text=Promote v2…").click();
await page.waitForSelector("dialog[open]");
await everywhere(page, "promote");
await page.click("dialog >> text=Keep as it is");
await section.locator("text=End…").click();
await page.waitForSelector("dialog[open]");
await page.fill("dialog input", "We have seen <b>enough</b>.");
await everywhere(page, "end");
await page.click('dialog >> text="End the shadow"');
await section.locator("text=No other version").waitFor();
seen.none = await texts(section.locator("code"));
await everywhere(page, "none");
await end();
