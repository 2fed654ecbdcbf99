// The line of Home of agents whose accuracy fell.
import { end, everywhere, open, options, seen, signIn } from "./browsing.mjs";

const page = await open();
await signIn(page, `${new URL(options.link).origin}/`, options.viewer);
await page.waitForSelector("text=were not wrong");
seen.said = (await page.locator(".notice p", { hasText: "were not wrong" }).allInnerTexts()).map((each) => each.replaceAll(/\s+/g, " ").trim());
await everywhere(page, "home");
await page.click("text=What was corrected");
await page.waitForURL(/tab=corrections/);
await end();
