// Memory and documents: what agents know, with its origin; a developer corrects it, a viewer reads it.
import { apart, end, everywhere, open, options, seen, signIn } from "./browsing.mjs";

const { link, viewer, nobody } = options;
const base = new URL(link).origin;
const texts = async (of) => (await of.allInnerTexts()).map((each) => each.replaceAll(/\s+/g, " ").trim().replace(/^(.* ago|now) /, ""));
const listed = (page, count) => page.waitForFunction((wanted) => !document.querySelector("[aria-busy=true]") && document.querySelectorAll(".grp").length === wanted, count);

const page = await open();
await page.goto(link);
await page.waitForSelector(".figures");
await page.keyboard.press("g");
await page.keyboard.press("m");
await page.waitForSelector("text=No agent remembers anything");
await everywhere(page, "nothing remembered");

// A memory is told, corrected, disputed, withdrawn; the list says what became of it.
await page.click("text=Add a memory…");
await page.fill("dialog input >> nth=0", "triage");
await page.fill("dialog textarea", "Ann handles refunds");
await page.fill("dialog input >> nth=1", "refunds");
await everywhere(page, "add a memory");
await page.fill("dialog input >> nth=2", "nobody_of_this_name");
await page.click("dialog button.primary");
await page.waitForSelector("dialog p.wrong");
seen.refused = await page.locator("dialog p.wrong").innerText();
await page.fill("dialog input >> nth=2", "");
await page.click("dialog button.primary");
await listed(page, 1);
await page.click(".grp summary");
await page.click("text=Correct…");
await page.fill("dialog textarea", "Bob handles refunds");
await page.click("dialog button.primary");
await page.waitForSelector(".grp:has-text('Bob handles refunds')");
await page.click(".grp summary");
await page.waitForSelector("section[aria-label='What it replaced']");
seen.replaced = await texts(page.locator("section[aria-label='What it replaced'] li"));
await everywhere(page, "memory");
await page.click("text=Dispute");
await page.waitForSelector(".grp:has-text('disputed')");
seen.listed = await texts(page.locator(".grp summary"));
const bar = page.getByRole("combobox", { name: "Filter memories" });
await bar.fill("state:replaced");
await page.keyboard.press("Enter");
await page.waitForSelector(".grp:has-text('Ann handles refunds')");
seen.state = new URL(page.url()).search;
await page.goto(`${base}/memory?state=lost`);
await page.waitForSelector(".token.invalid");
await page.goto(`${base}/memory?q=nowhere`);
await page.waitForSelector("text=No memory matches");
await page.click("text=Clear the filter");
await listed(page, 1);
await page.click(".grp summary");
await page.click("text=Withdraw");
await page.waitForSelector("text=No agent remembers anything");
await page.goto(`${base}/memory?state=withdrawn`);
await listed(page, 1);
await page.click(".grp summary");
await page.click("text=Delete…");
await page.click("dialog button.danger");
await page.waitForSelector("text=No memory matches");

// Documents.
await page.keyboard.press("g");
await page.keyboard.press("d");
await page.waitForSelector("text=No document");
await page.click("text=Add a document…");
seen.ready = await page.locator("dialog button.primary").isDisabled();
await page.fill("dialog input >> nth=0", "Refund policy");
await page.fill("dialog input >> nth=1", "https://wiki.example/refunds");
await page.fill("dialog textarea", "Customers get their money back within 30 days.");
await everywhere(page, "add a document");
await page.click("dialog button.primary");
await page.waitForSelector(".grp:has-text('Refund policy')");
const find = page.getByRole("combobox", { name: "Search documents" });
await find.fill("refunds");
await page.keyboard.press("Enter");
await page.waitForURL(/q=refunds/);
await listed(page, 1);
await page.click(".grp summary");
await page.waitForSelector(".gbody dl");
await page.waitForFunction(() => !document.querySelector(".gbody .skeleton"));
seen.link = await page.locator(".gbody dd a").first().getAttribute("rel");
await everywhere(page, "document");

// Somebody else changes it meanwhile: what was typed is refused, and kept.
const other = await open();
await other.goto(`${base}/documents?q=refunds`);
await listed(other, 1);
await other.click(".grp summary");
for (const [each, days] of [[page, "40"], [other, "50"]]) {
  await each.click("text=Change…");
  await each.fill("dialog textarea", `Customers get their money back within ${days} days.`);
}
await page.click("dialog button.primary");
await page.waitForSelector("dialog", { state: "detached" });
await other.click("dialog button.primary");
await other.waitForSelector("text=Somebody has changed or deleted it meanwhile.");
seen.kept = await other.locator("dialog textarea").inputValue();
await other.keyboard.press("Escape");
await other.reload();
await other.click("text=Delete…");
await other.click("dialog button.danger");
await other.waitForSelector("text=No document has these words");

// Others read, or are told what they lack.
const theirs = await open(await apart());
await signIn(theirs, `${base}/memory`, viewer);
await theirs.waitForSelector("text=No agent remembers anything");
seen.offered = await theirs.locator("text=Add a memory…").count();
const none = await open(await apart());
await signIn(none, `${base}/memory`, nobody);
await none.waitForSelector("text=No memory is shown to you.");
await everywhere(none, "no role");
await end();
