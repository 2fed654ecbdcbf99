// Evaluations: the list, the cases of one, what a person says of them, and two compared.
import { apart, end, everywhere, open, options, seen, signIn } from "./browsing.mjs";

const { link, approver, viewer, part } = options;
const base = new URL(link).origin;
const tidy = (text) => text.replaceAll(/\s+/g, " ").trim();
const texts = async (of) => (await of.allInnerTexts()).map(tidy);
const settled = (at) => at.waitForFunction(() => !document.querySelector("[aria-busy=true]"));
const address = (at) => at.evaluate(() => location.pathname + location.search);

const page = await open();
if (part === "none") {
  await page.goto(link);
  await page.waitForSelector(".figures");
  await page.keyboard.press("g");
  await page.keyboard.press("v");
  await page.waitForURL(/\/evaluations$/);
  await page.waitForSelector("text=Nothing was evaluated yet");
  seen.command = await page.locator("main pre").innerText();
  await everywhere(page, "none");
  await page.goto(`${base}/evaluations/99`);
  await page.waitForSelector("text=Evaluation 99 does not exist");
  await end();
  process.exit(0);
}

// The list, and from the agent to its evaluations.
await signIn(page, `${base}/agents/triage`, approver);
await page.locator("main a", { hasText: /^Evaluations$/ }).click();
await page.waitForURL(/\/evaluations/);
await page.waitForSelector("[role=group] tbody tr");
seen.ofAgent = await address(page);
seen.listed = await texts(page.locator("tbody tr"));
await everywhere(page, "list");
await page.goto(`${base}/evaluations?dataset=nothing`);
await page.waitForSelector("text=No evaluation matches");

// One that runs says nothing of who wins; when it ends, it does.
const running = await open(page.context());
await running.goto(`${base}/evaluations/5`);
await running.waitForSelector("text=It runs.");
await everywhere(running, "running");

// The cases: filtered by the server, in the address, in pages.
await page.goto(`${base}/evaluations/1`);
await page.waitForSelector("details.ev");
seen.verdict = await texts(page.locator(".notice p"));
seen.measures = await texts(page.locator("table.cmp tbody tr"));
seen.pills = await texts(page.locator(".pill"));
await everywhere(page, "one");
await page.locator("details.ev").nth(49).scrollIntoViewIfNeeded();
await page.waitForFunction(() => document.querySelectorAll("details.ev").length === 60);
await page.locator(".pill", { hasText: "Better" }).click();
await page.waitForFunction(() => document.querySelectorAll("details.ev").length === 11);
seen.filtered = await address(page);
await page.locator(".pill", { hasText: "Failed" }).click();
await page.waitForFunction(() => document.querySelectorAll("details.ev").length === 1);
seen.failed = await texts(page.locator("details.ev summary"));

// Opened: both sides, what is rolled back, and what is not called.
await page.locator(".pill", { hasText: "All" }).click();
await page.waitForFunction(() => document.querySelectorAll("details.ev").length === 50);
await page.locator("details.ev summary").first().click();
await page.waitForSelector(".gbody section[aria-label=Candidate]");
seen.opened = await address(page);
for (const name of ["Recorded", "Candidate", "Rows that it would change"]) seen[name] = tidy(await page.locator(`.gbody section[aria-label="${name}"]`).innerText());
seen.row = tidy(await page.locator(".gbody table[aria-label='Row of the change']").innerText());
seen.bold = await page.locator(".gbody b", { hasText: "twice" }).count();
await everywhere(page, "opened");

// Who may only look has no buttons, and reads no value that its login cannot read.
const theirs = await open(await apart());
await signIn(theirs, `${base}/evaluations/1?open=60`, viewer);
await theirs.waitForSelector("section[aria-label='Case 60'] .gbody");
seen.theirs = tidy(await theirs.locator("section[aria-label='Case 60']").innerText());
seen.offered = await theirs.locator("section[aria-label='Case 60'] .gbody button").count();
await everywhere(theirs, "theirs");

// A key says which is right; what came on screen just now is not decided.
await page.keyboard.press("j");
await page.waitForSelector("#case-2[open] .gbody button");
await page.waitForTimeout(700);
await page.keyboard.press("1");
await page.waitForSelector("#case-2 small >> text=labelled since");
await page.waitForSelector("#case-2 >> text=Labelled since by ada");
seen.said = await texts(page.locator("#case-2 table[aria-label='What is expected now'] tr"));
await page.keyboard.press("3");
await page.waitForSelector("dialog[open]");
await everywhere(page, "neither");
await page.fill("dialog textarea", '{"values": {"category": "bug"}}');
await page.click("dialog >> text=Label the case");
await page.waitForSelector("#case-2 table[aria-label='What is expected now'] >> text=bug");
await running.waitForSelector(".st >> text=finished");
seen.ended = await texts(running.locator(".notice p").first());

// What somebody else has said meanwhile is not replaced.
const other = await open(page.context());
for (const each of [page, other]) {
  await each.goto(`${base}/evaluations/1?open=3`);
  await each.waitForSelector("#case-3 .gbody button");
  await each.waitForTimeout(700);
}
await page.locator("#case-3 button", { hasText: "Candidate" }).click();
await page.waitForSelector("#case-3 >> text=Labelled since by ada");
await other.locator("#case-3 button", { hasText: "Recorded" }).click();
await other.waitForSelector(".toast >> text=Somebody has labelled case 3 meanwhile");
await other.waitForSelector("#case-3 >> text=Labelled since by ada");

// Of a run without a dataset, its score is the label.
await page.goto(`${base}/evaluations/2?open=1`);
await page.waitForSelector("#case-1 .gbody button");
seen.unsure = await texts(page.locator(".notice p"));
await everywhere(page, "score");
await page.waitForTimeout(700);
await page.keyboard.press("1");
await page.waitForSelector("#case-1 small >> text=labelled since");

// Saved questions that were asked again: both statements.
await page.goto(`${base}/evaluations/6?open=2`);
await page.waitForSelector("#case-2 .gbody section[aria-label=Candidate]");
seen.asked = (await texts(page.locator("details.ev summary"))).map((text) => text.split("?")[0] + "?");
seen.question = tidy(await page.locator("#case-2 .gbody").innerText());
await everywhere(page, "question");

// Two, on what both have.
await page.goto(`${base}/evaluations/1`);
await page.waitForSelector("main select option:nth-child(4)", { state: "attached" });
seen.others = await texts(page.locator("main select option"));
await page.selectOption("main select", "4");
await page.waitForSelector("table.pairs tbody tr");
seen.compared = await address(page);
seen.common = await texts(page.locator(".notice p"));
seen.pairs = await texts(page.locator("table.pairs tbody tr"));
await everywhere(page, "compared");
await page.goto(`${base}/evaluations/1?with=2`);
await page.waitForSelector("text=They have no case in common");
await page.goto(`${base}/evaluations/1?with=1`);
await page.waitForSelector("text=is compared with another one, not with itself");
await end();
