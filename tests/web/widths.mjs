// Pages with long names and large calls, at each width and at 200 %.
// Nothing leaves the page or its panel, no heading covers another one, no table is cut off on a wide screen.
import { end, open, options, seen } from "./browsing.mjs";

const base = new URL(options.link).origin;
const page = await open();
await page.goto(options.link);
await page.waitForSelector(".figures");

const faults = (width) => {
  const found = [];
  const isShown = (each) => each.checkVisibility() && each.getBoundingClientRect().width > 1;
  const name = (each) => `${each.tagName.toLowerCase()}.${each.getAttribute("class") ?? ""} ${each.textContent.slice(0, 40)}`;
  const scrolls = (each) => ["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(each).overflowX);
  const edge = (each) => {
    for (let up = each.parentElement; up; up = up.parentElement) if (scrolls(up)) return null;
    return innerWidth;
  };
  if (document.documentElement.scrollWidth > innerWidth) found.push(["page", document.documentElement.scrollWidth]);
  for (const each of document.querySelectorAll("main *")) {
    if (!isShown(each) || each.closest("svg, .vh")) continue;
    const right = edge(each);
    if (right !== null && each.getBoundingClientRect().right > right + 1) found.push(["wide", name(each)]);
  }
  for (const each of document.querySelectorAll("main .panel, main .item, main .decide, main .side, main section"))
    if (isShown(each) && !scrolls(each) && each.scrollWidth > each.clientWidth + 2) found.push(["panel", name(each)]);
  for (const each of document.querySelectorAll("main th"))
    if (isShown(each) && each.scrollWidth > each.clientWidth + 1) found.push(["heading", name(each)]);
  if (width >= 1440)
    for (const each of document.querySelectorAll("main .scroll, main .list"))
      if (isShown(each) && each.scrollWidth > each.clientWidth + 1) found.push(["cut off", name(each)]);
  const [bar] = document.querySelectorAll(".decide");
  if (bar && innerHeight <= 500 && getComputedStyle(bar).position === "sticky") found.push(["covers", name(bar)]);
  const spacer = document.querySelector("tr.spacer td");
  const cells = [...document.querySelectorAll("[data-run]")].at(0)?.querySelectorAll("td") ?? [];
  if (spacer && innerWidth > 700 && spacer.colSpan > [...cells].filter(isShown).length) found.push(["spacer", spacer.colSpan]);
  return found;
};
const pages = ["/", "/runs", "/runs?panel=8", "/runs/8", `/approvals?approval=${options.call}`, "/failed", "/changes", "/evaluations", "/agents", `/agents/${options.agent}`, "/threads", `/threads/${options.thread}`, "/tables", "/tables/public.ticket", "/cost", "/wal", "/access", "/access?tab=tokens", "/audit", "/memory", "/documents", "/workflows"];
// 720 by 450 is a screen at 200 %.
const sizes = [...new Set(options.views.map(([width]) => width))].map((width) => [width, width === 390 ? 844 : 900]);
sizes.splice(-1, 0, [720, 450]);
seen.faults = [];
seen.tall = [];
for (const path of pages) {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(base + path);
  for (const [width, height] of sizes) {
    await page.setViewportSize({ width, height });
    await page.waitForTimeout(100);
    await page.waitForFunction(() => [...document.querySelectorAll("main h1, main h2, main h3, .absent")].some((each) => each.checkVisibility()));
    await page.waitForFunction(() => !document.querySelector("[aria-busy=true]"));
    if (path === "/runs") await page.mouse.wheel(0, 600).then(() => page.waitForTimeout(200));
    for (const fault of await page.evaluate(faults, width)) seen.faults.push([`${path} ${width}`, ...fault]);
    if (path === "/" && (await page.evaluate(() => document.documentElement.scrollHeight)) > 9_000) seen.tall.push(width);
    if (options.shots) await page.screenshot({ path: `${options.shots}/crowded${path.slice(0, 30).replaceAll(/[^a-z0-9]+/g, "-")}-${width}.png` });
  }
}

await end();
