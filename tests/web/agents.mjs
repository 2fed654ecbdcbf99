// Edits, compares, publishes and rolls back an agent, and looks at it as a viewer; prints what it saw as one JSON document.
import { apart, end, everywhere, open, options, seen, signIn } from "./browsing.mjs";

const base = new URL(options.link).origin;
const texts = (page, selector) => page.locator(selector).allInnerTexts();

// A draft by keys: what changed is marked, a limit that is none is named, and a reload keeps it.
const page = await open();
await page.goto(options.link);
await page.waitForURL((at) => !at.pathname.startsWith("/sign-in"));
await page.goto(`${base}/agents/triage`);
await page.waitForSelector("text=Versions");
await page.waitForSelector("text=in use");
await everywhere(page, "agent");
await page.click("text=Edit prompt");
await page.waitForSelector("textarea");
seen.unchanged = await page.locator(".head button.primary").isDisabled();
await page.focus("textarea");
await page.keyboard.press("Control+End");
await page.keyboard.type("\nGive nothing above 900 back <script>alert(1)</script>.");
await page.fill("label:has-text('Max steps') input", "none");
seen.wrong = await texts(page, ".wrong");
seen.blocked = await page.locator(".head button.primary").isDisabled();
await page.fill("label:has-text('Max steps') input", "7");
await everywhere(page, "edit");
await page.click("text=Diff to v1");
await page.waitForSelector(".diff .add");
seen.added = await texts(page, ".diff .add");
await everywhere(page, "diff");
await page.reload();
await page.waitForSelector(".diff .add");

// Tried on chosen rows, as it is and with the draft; nothing is kept.
await page.selectOption("label:has-text('Model') select", "second");
await page.click("text=Choose rows…");
await page.waitForSelector("dialog li");
seen.choices = await page.locator("dialog li").count();
while (await page.locator("dialog input:checked").count()) await page.locator("dialog input:checked").first().click();
for (const key of ["1", "2"]) await page.locator("dialog li", { has: page.locator(`b:text-is("${key}")`) }).locator("input").check();
await everywhere(page, "choose");
await page.click("dialog >> text=Take 2 rows");
await page.click("text=Try on 2 rows");
await page.waitForSelector("dialog");
seen.price = await page.locator("dialog p").innerText();
await page.click("dialog >> button.primary");
await page.waitForSelector("text=Try again");
await page.waitForFunction(() => !document.querySelector(".st-running"));
seen.tried = await texts(page, ".rowdiff tbody tr");
seen.asks = await page.locator("text=would ask for approval").count();
seen.measures = await texts(page, "[aria-label=Results] tbody tr");
await everywhere(page, "try");
await page.click(".toggle >> text=Edit");
await page.focus("textarea");
await page.keyboard.press("Control+Enter");
await page.waitForSelector("dialog");
await everywhere(page, "publish");
await page.click("dialog >> text=Publish as v2");
await page.waitForURL(/\/agents\/triage$/);
await page.waitForSelector("text=Published v2");
await page.click("text=Compare v1 and v2");
await page.waitForSelector("h1:has-text('Compare')");
await page.waitForSelector(".diff .add");
seen.compared = await texts(page, ".kv dd");
await everywhere(page, "compare");
await page.click("text=Roll back to v1");
await page.click("dialog >> button.primary");
await page.waitForSelector("text=as v1 was");

// Two drafts of one version: the later one is kept, and what happened is said.
await page.goto(`${base}/agents/triage/edit`);
await page.waitForSelector("textarea");
const other = await page.context().newPage();
await other.goto(`${base}/agents/triage/edit`);
await other.waitForSelector("textarea");
await other.fill("textarea", "Somebody was faster.");
await page.fill("textarea", "Too late.");
await other.click(".head button.primary");
await other.click("dialog >> text=Publish as v4");
await other.waitForURL(/\/agents\/triage$/);
await page.click(".head button.primary");
await page.click("dialog >> text=Publish as v4");
await page.waitForSelector(".notice.person");
seen.late = await page.locator(".notice.person").innerText();
seen.kept = await page.inputValue("textarea");
await everywhere(page, "late");

// Pause and resume.
await page.goto(`${base}/agents/triage`);
await page.click("button:has-text('Pause')");
await page.waitForSelector("button:has-text('Resume')");
await page.click("button:has-text('Resume')");
await page.waitForSelector("button:has-text('Pause')");

// Attached by a form: what is wrong with the condition is said under it, and nothing typed is lost.
await page.goto(`${base}/agents`);
await page.click("text=Attach…");
await page.waitForSelector("h1:has-text('Attach an agent')");
await page.selectOption("#f-table", "public.ticket");
await page.fill("#f-name", "closer");
await page.fill("#f-condition", "new.nothing = 'closed'");
await page.locator("[aria-labelledby=writes-title] label", { hasText: "status" }).locator("input").check();
await page.fill("label:has-text('System prompt') textarea", "Close it.");
await everywhere(page, "attach");
await page.focus("#f-name");
await page.keyboard.press("Enter");
await page.waitForSelector("#condition-hint.wrong");
seen.condition = await page.locator("#condition-hint").innerText();
seen.focus = await page.evaluate(() => document.activeElement.id);
await everywhere(page, "attach wrong");
await page.fill("#f-condition", "new.status = 'closed'");
await page.fill("#f-tools", "no_such_tool");
await page.click("button[type=submit]");
await page.waitForSelector("#tools-hint.wrong");
seen.tool = await page.locator("#tools-hint").innerText();
await page.fill("#f-tools", "refund_customer");
await page.fill("#f-bind", "ticket_id=id");
await page.fill("#f-approve", "refund_customer");
await page.click("button[type=submit]");
await page.waitForURL(/\/agents\/closer$/);
await page.waitForSelector("h2:has-text('closer on public.ticket')");
await everywhere(page, "attached");
await page.click("button:has-text('Detach')");
await everywhere(page, "detach");
await page.click("dialog >> button.danger");
await page.waitForURL(/\/agents$/);
await page.waitForFunction(() => !document.querySelector("main table")?.innerText.includes("closer"));

// A viewer reads versions, and is offered nothing else.
const vera = await open(await apart());
await signIn(vera, `${base}/agents/triage`, options.viewer);
await vera.waitForSelector("text=Compare v3 and v4");
seen.offered = await texts(vera, "main button, main .btn");
await vera.goto(`${base}/agents/triage/edit`);
await vera.waitForSelector(".diff");
seen.viewed = await texts(vera, "main button, main .btn, main textarea");
await everywhere(vera, "viewer");
await vera.goto(`${base}/agents`);
await vera.waitForSelector("text=triage");
seen.attaches = await vera.locator("text=Attach…").count();
await vera.goto(`${base}/attach`);
await vera.waitForSelector("text=needs the role developer");
seen.fields = await vera.locator("main form").count();

await end();
