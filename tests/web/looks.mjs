// Looks at each page of the console at each width and in each theme; prints what it saw as one JSON document.
import { end, everywhere, open, options, seen } from "./browsing.mjs";

const base = new URL(options.link).origin;
const pages = ["/", "/runs", "/runs?panel=1", "/runs/1", "/runs/4", "/approvals", "/failed", "/changes", "/changes?tab=corrections", "/evaluations", "/agents", "/threads", "/ask", "/tables", "/cost", "/wal", "/access", "/access?tab=tokens", "/audit", "/memory", "/documents", "/workflows", "/more", "/runs/999", "/nowhere"];

const page = await open();
await page.goto(options.link);
await page.waitForSelector(".figures");
for (const path of pages) {
  await page.goto(base + path);
  await page.waitForSelector("h1, h3, .absent");
  await page.waitForFunction(() => !document.querySelector("[aria-busy=true]"));
  await everywhere(page, path);
  if (path === "/cost") seen.prices = await page.locator(".plot .y span").allTextContents();
}
await end();
