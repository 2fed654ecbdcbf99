// Many calls that wait: narrowed, selected, read together, decided together.
import { end, everywhere, open, options, readCall, seen } from "./browsing.mjs";

const { link } = options;
const base = new URL(link).origin;
const page = await open();
await page.goto(link);
await page.waitForSelector(".figures");
await page.goto(`${base}/approvals`);
await page.waitForSelector("form.decide");
await page.waitForSelector(".pick >> nth=4");

// All of them: what may not be decided beside others is named, with the reason.
const all = page.locator(".narrow label:has(input[type=checkbox])");
seen.all = await all.innerText();
await all.click();
await page.waitForSelector("[aria-label='Calls that are decided alone'] tbody tr >> nth=1");
seen.alone = await page.locator("[aria-label='Calls that are decided alone'] tbody td:nth-child(3)").allInnerTexts();
const approve = page.locator("form.decide .btn.primary");
seen.button = await approve.innerText();
await everywhere(page, "many");
await page.setViewportSize({ width: 390, height: 844 });
await page.waitForSelector(".pinned button:has-text('Read the 5 calls')");
await everywhere(page, "selected");
await page.setViewportSize({ width: 390, height: 844 });
await page.click(".pinned button");
await page.click("button:has-text('Back to the list')");
await page.click(".pinned button");
await everywhere(page, "read");
await page.setViewportSize({ width: 1440, height: 900 });
await page.keyboard.press("Escape");
await page.waitForSelector("section[aria-label=Call]");

// Narrowed by an argument, in the order of it.
await page.click(".narrow .filterbar input");
await page.keyboard.type("tool:refund_customer amount:<50");
await page.keyboard.press("Enter");
await page.waitForSelector("text=All 3 shown");
await page.selectOption(".narrow select", "amount");
await page.waitForURL(/sort=amount/);
seen.narrowed = [decodeURIComponent(new URL(page.url()).searchParams.get("q")), await all.innerText()];
seen.order = (await page.locator(".pick .item").allInnerTexts()).map((each) => /amount => ([\d.]+)/.exec(each)?.[1]);
await everywhere(page, "narrowed");

// A click that comes with the summary decides nothing.
await page.evaluate(() => {
  const look = new MutationObserver(() => {
    const button = document.querySelector("form[aria-label='Decision about all'] .btn.primary");
    if (button) void (look.disconnect(), button.click());
  });
  look.observe(document.body, { childList: true, subtree: true });
});
await all.click();
await page.waitForSelector("text=Nothing was sent");
seen.early = await page.locator(".pick").count();
const total = () => page.locator("dt:has-text('Sum of amount') + dd").innerText();
seen.sum = await total();

// A colleague decides about one of them: it leaves the summary.
const colleague = await open();
await colleague.goto(`${base}/approvals?q=amount:12.5%20tool:refund_customer`);
await readCall(colleague);
await colleague.fill("form.decide input", "Not for ann");
await colleague.click("button:has-text('Reject')");
await page.waitForSelector("text=2 calls are selected");
await page.waitForSelector("form.decide");
seen.elsewhere = [await approve.innerText(), await total()];
await readCall(page);
await approve.click();
const said = page.locator(".toasts", { hasText: "Approved 2 calls." });
await said.waitFor();
seen.said = /Approved 2 calls\./.exec(await said.innerText())[0];
await page.waitForSelector("text=2 wait");
seen.left = await page.locator(".side .top .muted").first().innerText();
await end();
