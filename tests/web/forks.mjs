// A run goes on from a step in a run of its own; a person interrupts what an agent writes in a thread.
import { apart, end, everywhere, open, options, seen, signIn } from "./browsing.mjs";

const { link, run, people } = options;
const base = new URL(link).origin;
const texts = async (of) => (await of.allInnerTexts()).map((each) => each.replaceAll(/\s+/g, " ").trim());

const page = await open();
await page.goto(link);
await page.waitForSelector(".figures");
await page.goto(`${base}/runs/${run}`);
await page.waitForSelector("section.step >> text=Go on from here…");
seen.offered = await page.locator("section.step >> text=Go on from here…").count();
await page.locator("section.step >> text=Go on from here…").nth(1).click();
await page.waitForSelector("dialog[open]");
await page.selectOption("dialog select >> nth=0", "arguments");
seen.arguments = await page.locator("dialog textarea").inputValue();
await everywhere(page, "dialog");
await page.selectOption("dialog select >> nth=0", "nothing");
await page.click('dialog >> text="Begin the run"');
await page.waitForURL((at) => at.pathname !== `/runs/${run}`);
await page.waitForSelector(".notice >> text=Goes on from step 1 of");
await page.waitForSelector(".head >> text=succeeded");
await page.waitForSelector("section.step >> text=kept");
seen.fork = await texts(page.locator(".notice p"));
await everywhere(page, "fork");
await page.goto(`${base}/runs/${run}`);
await page.waitForSelector(".notice >> text=goes on from step 1");
await everywhere(page, "original");

const theirs = await open(await apart());
const refused = [];
theirs.on("response", (answer) => answer.status() === 403 && refused.push(answer.url()));
await signIn(theirs, `${base}/runs/${run}`, people.vera);
await theirs.waitForSelector("section.step");
seen.theirs = await theirs.locator("text=Go on from here…").count();
seen.unexpected = refused.filter((each) => each.includes("forks"));

const omar = await open(await apart());
await signIn(omar, `${base}/threads`, people.omar);
await omar.waitForSelector("text=No threads yet");
await omar.keyboard.press("n");
await omar.waitForSelector("dialog >> text=jerry");
await omar.keyboard.type("Friday");
await omar.keyboard.press("Tab");
await omar.keyboard.press("Space");
const follows = omar.waitForResponse((answer) => answer.url().includes("/v1/replies")); // a reply that nobody follows is not written word by word
await omar.keyboard.press("Enter");
await omar.waitForSelector("h1:has-text('Friday')");
await follows;
seen.early = await omar.locator("text=Interrupt").count();
await omar.fill("#message", "Tell me everything");
await omar.keyboard.press("Enter");
await omar.waitForSelector(".bubble:has(.caret)");
await omar.waitForFunction(() => document.querySelector(".bubble:has(.caret)")?.innerText.includes("everybody"));
await omar.fill("#message", "Stop! Please remember that anna drinks tea");
await omar.click('.composer >> text="Interrupt"');
await omar.waitForSelector(".bubble:has-text('cut off')");
await omar.waitForSelector(".bubble:not(:has(.caret)):has-text('I have noted it.')");
await omar.waitForFunction(() => !document.querySelector(".caret"));
seen.bubbles = await texts(omar.locator(".bubble"));
await everywhere(omar, "thread");
await end();
