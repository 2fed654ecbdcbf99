// Budgets, changed where they are read: what is wrong, what goes on at once, and who may not.
import { apart, end, everywhere, open, options, seen, signIn } from "./browsing.mjs";

const { link, viewer, name } = options;
const base = new URL(link).origin;
const page = await open();
await page.goto(link);
await page.waitForSelector(".figures");
await page.goto(`${base}/cost`);
const row = page.locator("[aria-label=Budgets] tbody tr", { hasText: name });
await row.waitFor();
seen.waits = await row.locator("a").innerText();
await everywhere(page, "budgets");
await row.locator("button").click();
const save = page.locator("dialog button.primary");
seen.unchanged = await save.isDisabled();
await page.fill("dialog input >> nth=0", "-3");
seen.wrong = await page.locator("dialog p.wrong").innerText();
await page.fill("dialog input >> nth=0", "0.002");
seen.spent = await page.locator("dialog p[role=status]").innerText();
await page.fill("dialog input >> nth=0", "40");
await page.click("dialog button:has-text('Raise to 60')");
await page.selectOption("dialog select >> nth=1", "fail");
seen.said = await page.locator("dialog p[role=status]").innerText();
await everywhere(page, "change");

// Somebody else changes it meanwhile: what was typed is refused, not mixed with it.
const other = await open();
await other.goto(`${base}/cost`);
await other.click(`button[aria-label='Change ${name}']`);
await other.selectOption("dialog select >> nth=0", "day");
await other.click("dialog button.primary");
await other.waitForSelector("dialog", { state: "detached" });
await save.click();
await page.waitForSelector("text=Somebody has changed or removed it meanwhile.");
await page.keyboard.press("Escape");
await page.waitForSelector(`tr:has-text('a day')`);
await row.locator("button").click();
await page.fill("dialog input >> nth=0", "60");
await save.click();
await page.waitForSelector("dialog", { state: "detached" });
await page.waitForSelector("tr:has-text('$60.00 a day')");
seen.toast = await page.locator(".toasts").innerText();

// A budget is made where the others are, for an agent that exists, and removed there.
await page.click("text=New budget…");
await page.fill("dialog input >> nth=0", name);
seen.taken = await page.locator("dialog p.wrong").innerText();
await page.fill("dialog input >> nth=0", "of triage");
await page.selectOption("dialog select >> nth=0", "agent");
await page.fill("dialog input >> nth=1", "5");
const make = page.locator("dialog button.primary");
seen.chosen = await make.isDisabled();
await page.selectOption("dialog select >> nth=1", "triage");
await everywhere(page, "new");
await make.click();
await page.waitForSelector("dialog", { state: "detached" });
await page.waitForSelector("tr:has-text('of triage')");
seen.made = (await page.locator("tr:has-text('of triage') td >> nth=1").innerText()).trim();
await page.click("button[aria-label='Change of triage']");
await page.click("dialog >> text=Remove…");
await everywhere(page, "remove");
await page.click("dialog button.danger");
await page.waitForSelector("tr:has-text('of triage')", { state: "detached" });

const theirs = await open(await apart());
await signIn(theirs, `${base}/cost`, viewer);
await theirs.waitForSelector("[aria-label=Budgets] tbody tr");
seen.viewer = [await theirs.locator("button:has-text('Change…'), button:has-text('New budget…')").count(), await theirs.locator("section:has([aria-label=Budgets]) footer").innerText()];
await everywhere(theirs, "viewer");
await end();
