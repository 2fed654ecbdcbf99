// Uses the console as a person does; prints what it saw as one JSON document.
import { check, context, end, everywhere, open, options, readCall, resize, seen } from "./browsing.mjs";

const { link } = options;
const base = new URL(link).origin;
const text = (page, selector) => page.locator(selector).first().innerText();

// Sign-in by the link; the code leaves the address, and no script reads the cookie.
const page = await open();
// What is loaded once there is nothing else to do is no part of the first view.
await page.addInitScript(() => (window.requestIdleCallback = () => 0));
const sizes = [];
page.on("requestfinished", async (request) => sizes.push(request.sizes().then((size) => [new URL(request.url()).pathname, size.responseBodySize])));
await page.goto(link);
await page.waitForSelector(".figures");
await page.waitForSelector("text=Waits for a person");
seen.address = page.url();
seen.cookie = await page.evaluate(() => document.cookie);
const loaded = await Promise.all(sizes);
seen.first = loaded.filter(([path]) => path === "/sign-in" || path.startsWith("/assets/")).reduce((sum, [, size]) => sum + size, 0);

// Keys of the list: move, open, close, filter; the address has the filter, and back restores it.
await page.goto(`${base}/runs`);
await page.waitForSelector("[data-run='8']");
await page.keyboard.press("j");
await page.keyboard.press("j");
await page.keyboard.press("Enter");
await page.waitForURL(/panel=7/);
seen.panel = await text(page, "aside h2");
await page.keyboard.press("Escape");
await page.waitForURL((url) => !url.search.includes("panel"));
await page.keyboard.press("/");
await page.keyboard.type("state:failed");
await page.keyboard.press("Enter");
await page.waitForURL(/state=failed/);
await page.waitForFunction(() => document.querySelectorAll("[data-run]").length === 2);
seen.filtered = await page.locator("[data-run]").evaluateAll((rows) => rows.map((row) => row.dataset.run));
await page.keyboard.press("Escape");
await page.click("[data-run='7'] a");
await page.waitForSelector("h1:has-text('Run 7')");
await page.keyboard.press("]");
await page.waitForURL(/\/runs\/4$/);
await page.goBack();
await page.waitForURL(/\/runs\/7$/);
await page.goBack();
seen.at = page.url();
await page.waitForURL(/\/runs\?state=failed$/);

// A saved filter is a tab of everybody who sees the runs, at once.
const colleague = await open();
await colleague.goto(`${base}/runs`);
await colleague.waitForSelector("[data-run='8']");
await page.click("text=Save filter");
await page.fill("dialog input", "Broken calls");
await check(page, "save filter");
await page.keyboard.press("Enter");
await page.waitForSelector("nav.tabs a[aria-current]:has-text('Broken calls 2')");
await colleague.click("nav.tabs a:has-text('Broken calls')");
await colleague.waitForURL(/\/runs\?state=failed$/);
await colleague.waitForSelector("nav.tabs a:has-text('Broken calls') .count"); // it is counted after it is there
seen.saved = await colleague.locator("nav.tabs a:has-text('Broken calls')").innerText();
await colleague.click("[aria-label='Remove the saved filter Broken calls']");
await page.waitForSelector("nav.tabs a:has-text('Broken calls')", { state: "detached" });
await colleague.close();
await page.keyboard.press("Control+k");
await page.waitForSelector("dialog.finder");
await page.keyboard.type("ticket");
await page.waitForSelector("dialog.finder li:has-text('ticket')");
await check(page, "find");
await page.keyboard.press("Escape");
await page.waitForSelector("dialog.finder", { state: "detached" });
await page.keyboard.press("Control+k");
await page.waitForSelector("dialog.finder");
await page.keyboard.type("6");
await page.keyboard.press("Enter");
await page.waitForURL(/\/runs\/6$/);
await page.waitForSelector("text=Message as sent");
seen.escaped = await text(page, ".head p:not(.crumb)");
seen.prompt = await text(page, ".payload[open] pre");

// A question: answer, plan, statements, rows, chart; then one that is asked back.
await page.goto(`${base}/ask`);
await page.waitForSelector("#question");
await page.keyboard.type("How many tickets are there in each category?");
await page.keyboard.press("Control+Enter");
await page.waitForSelector("svg.plan");
await page.waitForSelector("ul.hbars");
seen.answer = await text(page, ".answer");
seen.results = await page.locator("[aria-label^=Rows]").evaluateAll((all) => all.map((table) => [...table.querySelectorAll("tbody tr")].map((row) => row.innerText)));
seen.plan = await page.locator("svg.plan rect.ok").count();
seen.statements = await page.locator("pre.code").allInnerTexts();
await page.click("text=Save as verified");
await page.waitForSelector("text=Saved as verified");
await everywhere(page, "ask");
await page.fill("#question", "Which week?");
await page.keyboard.press("Control+Enter");
await page.waitForSelector("h2:has-text('Question back')");
seen.clarified = await text(page, ".answer");

// A decision: not by a key within half a second, then by one; another page sees its run go on.
const other = await open();
await other.goto(`${base}/runs/1`);
await other.waitForSelector("text=waiting for approval");
await page.goto(`${base}/runs/1`); // of the two calls, either can have been asked first
await page.click("text=Review call >> visible=true");
await page.waitForSelector("form.decide");
await page.keyboard.press("a");
await page.waitForTimeout(250);
seen.early = await page.locator("h2.big").innerText();
seen.call = await text(page, ".call");
await page.waitForTimeout(600);
await page.keyboard.press("a");
await page.waitForSelector("text=Approved refund_customer of run 1");
await other.waitForSelector(".head .st:has-text('succeeded')");
seen.went = await text(other, ".head .st");
await readCall(page);
await page.click("button:has-text('Reject')");
seen.missing = await text(page, "#reason-missing");
await page.fill("form.decide input", "ask the customer first");
await page.keyboard.press("Control+Enter");
await page.waitForSelector("text=Rejected refund_customer of run 3");
await page.waitForSelector("text=Nothing waits for a person");
await page.goto(`${base}/approvals?tab=history`);
await page.waitForSelector(".side a.item");
seen.history = await page.locator(".side a.item").count();
await check(page, "history");

// How a run is retried is asked, on each screen.
await page.goto(`${base}/runs/7`);
await page.click("button:has-text('Retry…')");
await page.selectOption("dialog select >> nth=0", "fresh");
await page.waitForSelector("dialog:has-text('shown nothing of the steps before')");
await everywhere(page, "retry");
await page.keyboard.press("Escape");

// Retry a failed run, and all of a reason; the server does it.
await page.goto(`${base}/failed`);
await page.click("summary");
await page.click("button:has-text('Assign to me')");
await page.waitForSelector("button:has-text('Leave it')");
await everywhere(page, "issue");
await page.click("button:has-text('Mute for 1 day')");
await page.waitForSelector("text=No failure is open");
await page.click("nav.tabs a:has-text('Muted')");
await page.click("summary");
await page.waitForSelector("dd:has-text('muted until')");
await page.click("button:has-text('Open again')");
await page.waitForSelector("text=Nothing is muted");
await page.click("nav.tabs a:has-text('Open')");
await page.click("summary");
await page.waitForSelector("dd:has-text('assigned by')");
await page.click("button:has-text('Retry all 2')");
await page.click("dialog button:has-text('Retry 2 runs')");
await page.waitForSelector("text=2 runs queued.");
await page.keyboard.press("?");
await page.waitForSelector("dialog:has-text('Keys of single letters')");
await check(page, "keys");
await page.keyboard.press("Escape");

// Without a connection the page stays readable and says so.
await page.goto(`${base}/runs`);
await page.waitForSelector("[data-run='8']");
await context.setOffline(true);
await page.waitForSelector(".banner:has-text('Reconnecting')");
seen.offline = await page.locator("[data-run]").count();
await check(page, "offline");
await context.setOffline(false);
await page.waitForSelector(".banner:has-text('Connected again')");

// Signing out.
await page.click("button[aria-label^='Signed in']");
await page.click("button:has-text('Sign out')");
await page.waitForURL(/\/sign-in/);
await check(page, "sign in");
await page.goto(`${base}/runs?state=dead`);
await page.waitForURL(/\/sign-in/);
seen.back = new URL(page.url()).searchParams.get("to");
await page.goto(link);
await page.waitForSelector("[role=alert]");
seen.used = await text(page, "[role=alert]");

await end();
