// Asks, looks at what is done meanwhile, and at questions of before; prints what it saw as JSON.
import { apart, check, end, everywhere, open, options, seen } from "./browsing.mjs";

const base = new URL(options.link).origin;

// The list as it is once it says so: a second look could find what comes next, or nothing.
async function progress(says) {
  const found = await page.waitForFunction((says) => {
    const shown = [...document.querySelectorAll("[aria-label=Progress] li")].map((each) => each.innerText);
    return shown.some((each) => each.split("\n").includes(says)) && shown;
  }, says);
  return found.jsonValue();
}

const page = await open();
await page.goto(options.link);
await page.waitForSelector(".figures");
await page.goto(`${base}/ask`);
await page.waitForSelector("#question");

// While a question is answered, its plan and results are shown as they are recorded.
await page.keyboard.type("How many tickets are there in each category?");
await page.keyboard.press("Control+Enter");
await page.waitForSelector("[aria-label=Progress] :text-is('planning')");
seen.planned = await progress("planned");
seen.read = await progress("3 rows");
await check(page, "progress");
await page.waitForSelector("ul.hbars");
seen.gone = await page.locator("[aria-label=Progress]").count();

// Edit puts the question back; what is sent then is another one, which fails.
await page.click("button:has-text('Edit')");
seen.field = await page.inputValue("#question");
seen.focused = await page.evaluate(() => document.activeElement.id);
await page.fill("#question", "Which failure?");
await page.keyboard.press("Control+Enter");
await page.waitForSelector("[role=alert]");
seen.kept = await page.inputValue("#question");

// After a reload they are listed; one is opened with its rows, and asked again.
await page.goto(`${base}/ask`);
await page.waitForSelector("#questions tbody tr:nth-child(2)");
seen.listed = await page.locator("#questions tbody tr").evaluateAll((all) => all.map((row) => [...row.cells].slice(0, 2).map((cell) => cell.innerText.trim()).join("\t")));
await page.click("#questions a:has-text('each category')");
await page.waitForURL(/question=/);
await page.waitForSelector("ul.hbars");
await page.waitForSelector("svg.plan");
seen.answer = await page.locator(".answer").innerText();
seen.rows = await page.locator("[aria-label^=Rows] tbody tr").allInnerTexts();
seen.statements = await page.locator("pre.code").allInnerTexts();
await everywhere(page, "asked");
await page.click("button:has-text('Ask again')");
await page.waitForSelector("[aria-label=Progress]");
await page.waitForSelector(".answer");
await page.waitForFunction(() => document.querySelectorAll("#questions tbody tr").length === 2);
seen.path = new URL(page.url()).pathname + new URL(page.url()).search;
await page.click("#questions a:has-text('Which failure')");
await page.waitForSelector("h2:has-text('Not answered')");
seen.reason = await page.locator("section:has(h2:has-text('Not answered'))").innerText();

// Nobody else sees them.
const stranger = await open(await apart());
await stranger.goto(`${base}/sign-in`);
await stranger.evaluate((token) => fetch("v1/session", { method: "POST", headers: { "content-type": "application/json", "x-walagent-request": "1" }, body: JSON.stringify({ token }) }), options.other);
const read = (name) => stranger.evaluate(async (path) => (await (await fetch(path)).json()).rows, `v1/queries/console.${name}`);
await stranger.goto(`${base}/ask`);
await stranger.waitForSelector("text=You cannot ask here");
const own = await page.evaluate(async () => (await (await fetch("v1/queries/console.questions")).json()).rows);
seen.own = own.length;
seen.others = [await read("questions"), await read(`question?id=${own[0].id}`), await read(`question_steps?session=${own[0].session}`)];

await end();
