// Two people in two browsers and an agent in one thread, and a viewer; prints what they see as one JSON document.
import { apart, check, end, everywhere, open, options, readCall, resize, seen, signIn } from "./browsing.mjs";

const { url, people } = options;
const enter = async (token, path) => {
  const page = await open(await apart());
  await signIn(page, url + path, token);
  return page;
};
const say = async (page, text) => {
  await page.fill("#message", text);
  await page.keyboard.press("Enter");
};
const texts = (page, selector) => page.locator(selector).allInnerTexts();

// A new thread by keys; the list teaches what a thread is.
const anna = await enter(people.anna, "/threads");
await anna.waitForSelector("text=No threads yet");
await check(anna, "empty");
await anna.keyboard.press("n");
await anna.waitForSelector("dialog >> text=jerry");
await anna.keyboard.type("Friday roast");
await anna.keyboard.press("Tab");
await anna.keyboard.press("Space");
await check(anna, "new");
await anna.keyboard.press("Enter");
await anna.waitForSelector("h1:has-text('Friday roast')");
seen.thread = new URL(anna.url()).pathname.split("/").pop();

// Somebody else does not see it, and joins by the link, after signing in.
const stranger = await enter(people.omar, "/threads");
await stranger.waitForSelector("text=No threads yet");
await stranger.goto(`${url}/threads/${seen.thread}`);
seen.stranger = await stranger.locator(".absent").innerText();
await stranger.context().close();
await anna.click("button[aria-label='Edit thread']");
const link = await anna.locator("input[aria-label=Invitation]").inputValue();
await anna.keyboard.press("Escape");
const omar = await enter(people.omar, link.slice(url.length));
await omar.waitForSelector("text=Join as omar");
await check(omar, "join");
await omar.click("text=Join as omar");
await omar.waitForURL(/\/threads\//);
await anna.waitForSelector("text=omar joined");

// A message is there at once, and the reply as it is written.
await say(anna, "Good morning <script>alert(1)</script>");
await omar.waitForSelector(".bubble:has-text('Good morning <script>')");
await omar.waitForSelector(".msg:has-text('is writing') .bubble:has(.caret)");
seen.writing = await omar.locator(".bubble:has(.caret)").innerText();
await omar.waitForSelector(".bubble:not(:has(.caret)):has-text('tickets today?')");
await anna.waitForSelector(".bubble:has-text('tickets today?')");
await omar.waitForFunction(() => !document.querySelector(".caret"));
seen.carets = await omar.locator(".caret").count();

// A tool stores a fact, which the computer of both shows.
await say(omar, "Please remember that anna drinks tea");
await anna.waitForSelector(".bubble:has-text('I have noted it.')");
await omar.waitForSelector(".facts-list li");
seen.facts = await texts(anna, ".facts-list li > span:nth-child(2)");

// A call is decided where it is asked, by whom may: every argument is on screen.
await say(omar, "And refund ticket 2");
await readCall(anna);
await omar.waitForSelector("text=You may read approvals, not decide them.");
seen.omarDecides = await omar.locator("form.decide, button:has-text('Approve')").count();
seen.call = await anna.locator(".asked .call").innerText();
await check(anna, "asked");
await anna.click("form.decide button:has-text('Reject')");
seen.missing = await anna.locator("#reason-missing").innerText();
await anna.click("form.decide button:has-text('Approve')");
await omar.waitForSelector(".bubble:has-text('The payment is on its way back.')");
await anna.waitForSelector(".sect[aria-label=Processes] tr:has-text('waits for events')");
await anna.waitForFunction(() => [...document.querySelectorAll(".sect[aria-label=Processes] tr")].filter((row) => row.textContent.includes("succeeded")).length === 3);

// The computer: what the last turn was shown, and filters.
seen.processes = await texts(anna, ".sect[aria-label=Processes] tr");
await anna.click(".computer .tabs >> text=Context");
await anna.waitForURL(/tab=context/);
await anna.click("text=As one text");
seen.context = await anna.locator(".sect[aria-label=Context] .payload[open] pre").innerText();
await anna.fill("input[aria-label='Filter context']", "drinks TEA");
seen.found = await texts(anna, ".sect[aria-label=Context] .payload summary");
await anna.click(".computer .tabs >> text=Memory");
await anna.fill("input[aria-label='Filter memory']", "coffee");
await anna.waitForSelector("text=No fact matches.");
await anna.click(".computer .tabs >> text=All");

// Rename, remove, pause, resume; the other browser follows.
await omar.click("button[aria-label='Edit thread']");
seen.omarMay = await texts(omar, "dialog button");
await omar.fill("#title", "Friday refunds");
await omar.click("dialog button:has-text('Rename')");
await omar.waitForSelector("h1:has-text('Friday refunds')");
await omar.click("dialog button:has-text('Done')");
await anna.waitForSelector(".threads a:has-text('Friday refunds')");
await anna.waitForSelector("h1:has-text('Friday refunds')");
await anna.click("button[aria-label='Edit thread']");
await check(anna, "edit");
await anna.click("dialog button:has-text('Pause')");
await omar.waitForSelector("text=Paused: agents take no turns.");
seen.omarResumes = await omar.locator("button:has-text('Resume')").count();
await anna.click("dialog button:has-text('Resume')");
await anna.click("button[aria-label='Remove jerry']");
await anna.click("dialog button:text-is('Keep jerry')");
await anna.fill("#member", "vera");
await anna.click("dialog button:has-text('Add')");
await anna.waitForSelector("dialog li:has-text('vera')");
await anna.click("button[aria-label='Remove vera']");
await anna.click("dialog button:text-is('Remove vera')");
await anna.waitForSelector("dialog li:has-text('vera')", { state: "detached" });
await anna.click("dialog button:has-text('Done')");

// A viewer reads all of it, and finds nothing to write with.
const vera = await enter(people.vera, `/threads/${seen.thread}`);
await vera.waitForSelector("text=You read this thread and are no member of it.");
await vera.waitForSelector(".bubble:has-text('on its way back.')");
seen.veraReads = await vera.locator(".bubble").count();
seen.veraMay = await vera.locator("#message, form.decide, button:has-text('Invite'), button:has-text('Stop')").count();
await vera.click("button[aria-label=Members]");
seen.veraDialog = await texts(vera, "dialog button");

await vera.goto(`${url}/ask`);
await vera.waitForSelector("text=You cannot ask here");
seen.veraAsks = [await vera.locator("#question").count(), await vera.locator(".notice").innerText()];

// All widths and both themes; on a small screen, one part at a time.
await everywhere(anna, "chat");
await resize(anna, 390);
for (const theme of ["light", "dark"]) {
  await anna.emulateMedia({ colorScheme: theme });
  await anna.click("text=Computer");
  await anna.waitForSelector(".computer");
  await check(anna, `computer ${theme}`);
  await anna.click("[aria-label='Back to the chat']");
  await anna.click("header [aria-label=Threads]");
  await anna.waitForSelector(".threads");
  await check(anna, `list ${theme}`);
  await anna.goBack();
  await anna.waitForSelector("#message");
}
await resize(anna, 1440);

// Leaving: the thread is gone, for who left alone.
await omar.click("button[aria-label='Edit thread']");
await omar.click("dialog button:has-text('Leave')");
await omar.click("dialog:has-text('Stay') button:has-text('Leave')");
await omar.waitForSelector("text=No threads yet");
await anna.waitForSelector("text=omar left");

await end();
