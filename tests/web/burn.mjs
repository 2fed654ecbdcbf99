// Plays Burn with two people in two browsers; prints what they see as one JSON document.
import { apart, check, end, open, options, resize, seen } from "./browsing.mjs";

seen.behind = [];
const enter = async (page, name) => {
  await page.fill("input[name=username]", name);
  await page.keyboard.press("Enter");
};
const say = async (page, text) => {
  await page.fill("#message", text);
  await page.keyboard.press("Enter");
};
const texts = (page, selector) => page.locator(selector).allInnerTexts();

const alice = await open();
const bob = await open(await apart());
await alice.goto(options.url);
await alice.waitForURL(/\/welcome$/);
seen.theme = await alice.evaluate(() => document.documentElement.dataset.theme);
await check(alice, "welcome");
await enter(alice, "Not a name");
seen.refused = await alice.locator("[role=alert]").innerText();
await enter(alice, "alice");
await alice.waitForURL(/\/threads\//);
await alice.waitForSelector("text=Who are you?");
seen.cookie = await alice.evaluate(() => document.cookie);
const thread = alice.url();

// A new thread is there in one step, then back to the first.
await alice.click("text=New thread");
await alice.waitForURL((at) => at.href !== thread && /\/threads\//.test(at.href));
await alice.waitForSelector("h1:has-text('Untitled thread 2')");
await alice.click("nav >> text=Untitled thread 1");

// Bob joins by link; his name is his.
await bob.goto(thread.replace("/threads/", "/join/"));
await bob.waitForURL(/welcome\?next=/);
await enter(bob, "alice");
seen.taken = await bob.locator("[role=alert]").innerText();
await enter(bob, "bob");
await bob.waitForURL(thread);
await alice.waitForSelector(".sys:has-text('bob joined the thread')");

// Facts and jokes.  Text of a user is text.
await say(bob, "<img src=x onerror=alert(1)>\nI like opera");
await bob.waitForSelector(".facts-list >> text=opera");
for (const hobby of ["chess", "cooking", "hiking", "sailing"]) {
  await say(alice, `I like ${hobby}`);
  await alice.waitForSelector(`.facts-list >> text=${hobby}`);
}
await bob.waitForSelector("text=jerry on");
await bob.waitForSelector("text=frankie on");
seen.jokes = (await texts(bob, ".bubble")).filter((each) => / joke /.test(each));
seen.escaped = (await texts(alice, ".bubble")).filter((each) => each.includes("<img"));

// The computer, with its filters.
seen.facts = await texts(bob, ".facts-list li b");
await bob.fill("input[aria-label='Filter memory']", "CHESS");
seen.filtered = await texts(bob, ".facts-list li b");
await bob.fill("input[aria-label='Filter memory']", "");
await bob.fill("input[aria-label='Filter processes']", "frankie");
seen.processes = await texts(bob, ".sect td .chip");
await bob.fill("input[aria-label='Filter processes']", "");

for (const [width, theme] of options.views) {
  await resize(alice, width);
  await alice.evaluate((name) => (document.documentElement.dataset.theme = name), theme);
  await alice.waitForTimeout(100); // the log follows its end through another width
  seen.behind.push(await alice.locator(".log").evaluate((log) => Math.round(log.scrollHeight - log.scrollTop - log.clientHeight)));
  await check(alice, `chat ${width} ${theme}`);
}
await resize(alice, 390);
await alice.click(".toggle-right");
await check(alice, "computer 390");
await alice.click("[aria-label='Close computer']");
await alice.click(".toggle-left");
await check(alice, "threads 390");
await alice.click("[aria-label='Close threads']");
await resize(alice, 1440);

// Edit: who owns removes; the producer stays; a name reaches everybody.
await bob.click("[aria-label='Edit thread']");
seen.removable = await texts(bob, "dialog button:has-text('Remove')");
await bob.click("text=Done");
await alice.click("[aria-label='Edit thread']");
await check(alice, "edit");
seen.owned = await alice.locator("dialog [aria-label^='Remove ']").evaluateAll((all) => all.map((each) => each.ariaLabel));
await alice.fill("#name", "Hobbies");
await alice.click("dialog >> text=Save");
await bob.waitForSelector("h1:has-text('Hobbies')");
await alice.click("[aria-label='Remove jerry']");
await check(alice, "confirm");
await alice.click("dialog footer >> text=Remove jerry");
await bob.waitForSelector(".sys:has-text('alice removed jerry')");
await alice.click("text=Done");
await bob.waitForSelector("[aria-label='Processes'] h3:has-text('2 agents')");

// Theme and session survive loading the page again; logging out ends it.
await bob.click("[aria-label^='Theme']");
await bob.reload();
await bob.waitForSelector("h1:has-text('Hobbies')");
seen.kept = await bob.evaluate(() => document.documentElement.dataset.theme);
seen.context = (await texts(bob, "[aria-label=Events] summary .end")).map((each) => Number(each.slice(1)));
await bob.click("[aria-label='Log out']");
await bob.waitForURL(/\/welcome/);
// A token that has ended is remembered for some seconds.
seen.status = await bob.evaluate(async () => {
  for (const end = Date.now() + 10_000; Date.now() < end; await new Promise((then) => setTimeout(then, 200))) {
    const { status } = await fetch("/sync/threads?offset=-1");
    if (status !== 200) return status;
  }
});
await end();
