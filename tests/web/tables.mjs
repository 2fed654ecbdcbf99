// Looks at rows of a table and asks why they have runs, or none; prints what it saw as JSON.
import { apart, check, end, everywhere, open, options, seen } from "./browsing.mjs";

const base = new URL(options.link).origin;

const page = await open();
await page.goto(options.link);
await page.waitForSelector(".figures");
await page.goto(`${base}/tables/public.ticket`);
await page.locator("button:text-is('Why')").first().click();
await page.waitForSelector(".reasons section");
await everywhere(page, "why");
seen.why = await page.locator(".reasons:visible").innerText();
await page.goto(`${base}/tables/public.ticket?key=4711`);
await page.locator("button:text-is('Why')").first().click();
await page.waitForSelector(".reasons section");
seen.whyNot = await page.locator(".reasons:visible").innerText();
await check(page, "why-not");

// A viewer without a login sees no row.
const other = await open(await apart());
await other.goto(`${base}/sign-in`);
await other.evaluate((token) => fetch("v1/session", { method: "POST", headers: { "content-type": "application/json", "x-walagent-request": "1" }, body: JSON.stringify({ token }) }), options.viewer);
await other.goto(`${base}/tables/public.ticket`);
await other.waitForSelector("text=not its rows");
seen.refused = await other.locator("section[aria-label='Not shown']").innerText();
seen.rows = await other.locator("tbody tr").count();
await everywhere(other, "refused");
await end();
