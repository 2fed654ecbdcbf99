// Reads single pages in full; prints what it saw as JSON.
import { end, everywhere, open, options, seen } from "./browsing.mjs";

const { link, run, approvals } = options;
const base = new URL(link).origin;
const rows = (page, label) => page.locator(`[role=group][aria-label='${label}'] tbody tr`).evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.innerText.replaceAll(/\s+/g, " ").trim()).join("\t")));
const settled = (page) => page.waitForFunction(() => !document.querySelector("[aria-busy=true]"));

const page = await open();
await page.goto(link);
await page.waitForSelector(".figures");
for (const path of ["/wal", "/attach", `/runs/${run}`]) {
  await page.goto(base + path);
  await page.waitForSelector("h1");
  await settled(page);
  await everywhere(page, path);
}

// The WAL: who reads, how late, and which tables.
await page.goto(`${base}/wal`);
await page.waitForSelector("[aria-label=Readers] tbody tr:nth-child(2)");
seen.readers = await rows(page, "Readers");
await page.waitForSelector("[aria-label=Publication] tbody tr");
seen.publication = await rows(page, "Publication");
seen.own = await page.locator("#publication").innerText();
seen.lag = await page.locator(".plot[aria-label*='ommit to ingestion']").getAttribute("aria-label");
await page.goto(base);
// Runs, failures, latency, open runs (of which the page needs two readings), lag.
await page.waitForFunction(() => document.querySelectorAll(".figures path").length === 5);
seen.waits = await page.locator("a.wrap-s code").allInnerTexts();
seen.figures = await page.locator(".figures a").evaluateAll((all) => all.map((each) => new URL(each.href).pathname + new URL(each.href).search));
await page.goto(`${base}/attach`);
seen.counted = await page.locator("nav.nav a[href$='/tables'] .count").innerText();
await page.goto(`${base}/tables`);
await page.waitForSelector("a.item");
seen.listed = await page.locator("a.item").count();
await page.goto(`${base}/attach`);
await page.waitForSelector("h1");
seen.current = await page.locator("nav.nav [aria-current=page]").innerText();
seen.current = seen.current.split("\n")[0];

// A row with a large number and an empty text, where it was changed and where a person decides.
await page.goto(`${base}/runs/${run}`);
await page.waitForSelector("table.rowdiff");
const change = await page.locator("table.rowdiff").last().locator("tr").evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.innerText.trim()).join("\t")));
seen.row = change.slice(0, 3);
seen.customer = change.at(-1);
seen.call = await page.locator("[aria-label=Call]").last().innerText();
seen.call = seen.call.replace(/\s+-- .*/, "");
await page.click("text=Review call >> visible=true");
await page.waitForSelector("[aria-label=Arguments] tbody tr");
seen.types = (await rows(page, "Arguments")).map((row) => row.split("\t").slice(0, 3).join("\t"));
seen.decided = await page.locator(".approve table.rowdiff, table.rowdiff").first().innerText();

// An approval by its address: that one, of several that wait.
seen.reviewed = [];
for (const approval of approvals) {
  await page.goto(`${base}/approvals/${approval}`);
  await page.waitForSelector("form.decide");
  await page.waitForSelector(".side a.item[aria-current]"); // the list beside it, which is read apart
  const run = await page.locator("section.approve a.btn[href^='/runs/']").getAttribute("href");
  seen.reviewed.push([run, await page.locator(".side a.item[aria-current]").count()]);
}

// A path without a page; and who is signed in cannot be asked: the page opens when it can.
const lost = await page.context().newPage();
await lost.goto(`${base}/nothing-here`);
await lost.waitForSelector("nav.nav");
seen.lost = await lost.locator("h1").innerText();
await lost.route("**/v1/session", (route) => route.fulfill({ status: 503, body: '{"message": "the database is not available"}' }));
await lost.goto(`${base}/wal`);
await lost.waitForSelector("#away");
await everywhere(lost, "away");
seen.away = await lost.locator("main").innerText();
await lost.unroute("**/v1/session");
await lost.waitForSelector("[aria-label=Readers]");

await end();
