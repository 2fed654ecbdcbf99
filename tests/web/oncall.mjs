// What must not happen to a person on call: a call that changes under the click, an answer that is thrown away.
import { context, end, everywhere, open, options, readCall, seen } from "./browsing.mjs";

const { link, token } = options;
const base = new URL(link).origin;
const call = (page) => page.locator("section.approve .call").first().innerText();
const buttons = (page) => page.locator("form.decide button:enabled").count();

const page = await open();
await page.goto(link);
await page.waitForSelector(".figures");

// The first call is pinned in the address; a colleague decides it while it is read.
await page.goto(`${base}/approvals`);
await page.waitForURL(/approval=\d+/);
await page.waitForSelector("form.decide");
seen.pinned = new URL(page.url()).search;
seen.read = await call(page);
await page.fill("form.decide input", "A reason about the first call");
const colleague = await open();
await colleague.goto(page.url());
await readCall(colleague);
await colleague.click("button:has-text('Approve')");
await page.waitForSelector("form.decide", { state: "detached" });
await page.waitForSelector("text=by postgres");
seen.kept = [await call(page), new URL(page.url()).search, await buttons(page)];

// The next call is not decided by clicks that come with it.
await page.evaluate(() => {
  const look = new MutationObserver(() => {
    const approve = document.querySelector("form.decide .btn.primary");
    if (approve) void (look.disconnect(), approve.click(), approve.click());
  });
  look.observe(document.body, { childList: true, subtree: true });
});
await page.click(".side a.item >> nth=0");
await page.waitForSelector("text=Nothing was sent");
seen.next = await call(page);
seen.undecided = await buttons(page);

// An address of a call shows that call, or says that it does not exist.
await page.goto(`${base}/approvals/99999`);
await page.waitForSelector("text=Approval 99999 does not exist");
seen.nowhere = await buttons(page);

// Answers that take longer than the interval are shown, and asked for one after the other.
seen.slow = [];
for (const [path, query, delay, shown] of [["/", "home", 6_000, ".figures"], ["/wal", "wal", 4_000, "text=restart_lsn"]]) {
  const slow = await open();
  let asked = 0, waiting = 0, most = 0;
  await slow.route(`**/v1/queries/console.${query}?*`, async (route) => {
    most = Math.max(most, ((asked += 1), (waiting += 1)));
    const response = await route.fetch();
    await new Promise((later) => setTimeout(later, delay));
    waiting -= 1;
    await route.fulfill({ response }).catch(() => {});
  });
  await slow.goto(base + path);
  await slow.waitForSelector(shown);
  await slow.waitForTimeout(delay);
  seen.slow.push([query, asked <= 2, most]);
  await slow.unrouteAll({ behavior: "ignoreErrors" });
  await slow.close();
}

// What must be acted on is the first thing on Home; nothing is healthy beside it, nor without an answer.
await page.goto(`${base}/`);
await page.waitForSelector("text=triage has stopped");
seen.problems = [await page.locator(".head .st").first().innerText(), await page.locator(".notice .problem").allInnerTexts()];
seen.first = await page.locator("[aria-label='Waits for a person'] tbody tr").first().innerText();
await everywhere(page, "problems");
await page.goto(`${base}/wal`);
await page.waitForSelector("text=restart_lsn");
seen.wal = await page.locator(".head .st").first().innerText();
await page.goto(`${base}/`);
await page.waitForSelector(".notice .problem");
await page.route("**/v1/queries/console.home?*", (route) => route.abort());
await page.waitForSelector(".head .st:has-text('no answer')");
await page.unrouteAll({ behavior: "ignoreErrors" });
await page.waitForSelector(".head .st:has-text('to act on')", { timeout: 60_000 });

// A row that leaves the filter stays in its place, as it is now.
await page.goto(`${base}/runs?state=waiting_approval`);
await page.waitForSelector("[data-run]");
const waiting = page.locator("[data-run]").first();
seen.before = await waiting.locator(".st").innerText();
await colleague.goto(`${base}/approvals`);
await readCall(colleague);
await colleague.fill("form.decide input", "ask the customer first");
await colleague.click("button:has-text('Reject')");
await page.waitForSelector("[data-run].gone");
await page.waitForSelector("[data-run].gone .st:not(:has-text('approval'))");
seen.after = await waiting.locator(".st").innerText();

// A session that ends leads to the sign-in once, and from there back.
await page.goto(`${base}/runs?state=failed`);
await page.waitForSelector("[data-run]");
await context.clearCookies();
await page.waitForURL(/sign-in/);
await page.waitForTimeout(6_000);
seen.ended = [page.url().slice(base.length), await page.locator(".notice").first().innerText()];
await page.fill("input[type=password]", token);
await page.keyboard.press("Enter");
await page.waitForURL(`${base}/runs?state=failed`);
await page.waitForSelector("[data-run]");

await end();
