// Who may do what: people, roles and tokens, by an admin, a viewer and the one who gets a token; and what the audit says of it.
import { apart, end, everywhere, open, options, seen, signIn } from "./browsing.mjs";

const { link, viewer } = options;
const base = new URL(link).origin;
const page = await open();
await page.goto(link);
await page.waitForSelector(".figures");
await page.keyboard.press("g");
await page.keyboard.press("x");
await page.waitForSelector("[aria-label='People and roles'] tbody tr");
const people = () => page.locator("[aria-label='People and roles'] tbody tr").evaluateAll((all) => all.map((row) => row.querySelector("b").textContent));
const box = (role, name) => page.locator(`input[aria-label='${role} for ${name}']`);
seen.people = await people();
seen.last = [await box("admin", "postgres").isDisabled(), await page.locator("text=last admin").count()];
await everywhere(page, "people");

// A name that is taken is refused where it is typed; another one is added, without a role.
await page.click("button:has-text('Add…')");
await page.fill("dialog input >> nth=0", "vera");
seen.taken = await page.locator("dialog .wrong").innerText();
await page.fill("dialog input >> nth=0", options.name);
await page.fill("dialog input >> nth=2", "no address");
await page.keyboard.press("Enter");
await page.waitForSelector("dialog p.wrong");
seen.wrong = await page.locator("dialog p.wrong").innerText();
await page.fill("dialog input >> nth=2", "omar@harbour.example");
await everywhere(page, "add");
await page.keyboard.press("Enter");
await page.waitForSelector("dialog", { state: "detached" });
await box("viewer", options.name).waitFor();

// Boxes are a draft with its meaning, saved at once.
await box("approver", options.name).click();
await box("viewer", options.name).click();
await box("viewer", "vera").click();
seen.draft = await page.locator(".draft li").allInnerTexts();
await page.selectOption(".draft select", "7");
await everywhere(page, "draft");
await page.click("button:has-text('Save 3 changes')");
await page.waitForSelector("text=Saved 3 changes of roles.");
await page.waitForSelector(".draft", { state: "detached" });
await page.waitForFunction((name) => document.querySelector(`input[aria-label='approver for ${name}']`).checked, options.name);
seen.saved = [await box("viewer", options.name).isChecked(), await box("viewer", "vera").isChecked()];

// A token is shown once; Escape does not lose it.
await page.click(`button[aria-label='Actions on ${options.name}']`);
await everywhere(page, "menu");
await page.click(".menu:popover-open button:has-text('New token…')");
await page.fill("dialog input[type=text]", "laptop of the person on call");
await page.check("dialog .boxes input >> nth=0");
await everywhere(page, "token");
await page.click("dialog button:has-text('Create the token')");
const secret = page.locator("dialog input[aria-label=Token]");
await secret.waitFor();
await page.keyboard.press("Escape");
await everywhere(page, "shown");
const token = await secret.inputValue();
seen.prefix = token.slice(0, 4);
await page.click("dialog button:has-text('I have kept it')");
await page.click(".tabs a:has-text('Tokens')");
await page.waitForSelector("[aria-label='Tokens and sessions'] tbody tr:has-text('laptop')");
seen.kept = (await page.content()).includes(token);
await everywhere(page, "tokens");

// Who has it signs in, and reads alone; a viewer sees who may do what, and changes nothing.
const other = await apart();
const theirs = await open(other);
await signIn(theirs, `${base}/access`, token);
await theirs.waitForSelector("[aria-label='People and roles'] tbody tr");
seen.reader = [await theirs.locator("input[type=checkbox]:enabled").count(), await theirs.locator("text=need the role admin").count(), await theirs.locator(".head .actions").count()];
await everywhere(theirs, "not an admin");
await theirs.goto(`${base}/audit`);
await theirs.waitForSelector("text=No entry is shown to you.");
seen.auditor = await theirs.locator(".notice code").allInnerTexts();
seen.hidden = await theirs.locator("details.aud").count();
await everywhere(theirs, "not an auditor");

// Revoked: the session of it ends with the next request.
await page.click("tr:has-text('laptop') button:has-text('Revoke…')");
await page.click("dialog button:has-text('Revoke it')");
await page.waitForSelector("text=Revoked laptop of the person on call.");
await page.waitForSelector("tr:has-text('laptop')", { state: "detached" });
await page.click(".check:has-text('that ended')");
await page.waitForSelector("tr:has-text('laptop'):has-text('revoked')");

// Disabled and enabled again.
await page.click(".tabs a:has-text('People')");
await page.click("button[aria-label='Actions on vera']");
await page.click(".menu:popover-open button:has-text('Disable…')");
await page.click("dialog button:has-text('Disable vera')");
await page.waitForSelector("tr:has-text('vera'):has-text('disabled')");
const refused = await apart();
const vera = await open(refused);
await vera.goto(`${base}/access`);
await vera.waitForURL(/sign-in/);
await vera.fill("input", viewer);
await vera.keyboard.press("Enter");
await vera.waitForSelector("text=This token is not valid");

// The audit has all of it: filtered by kind, person and act, with a link to what it names.
await page.keyboard.press("g");
await page.keyboard.press("u");
await page.waitForSelector("details.aud");
const lines = (within) => within.locator("details.aud > summary").evaluateAll((all) => all.map((each) => [...each.children].slice(2, 5).map((part) => part.innerText.trim().replaceAll(/\s+/g, " "))));
await everywhere(page, "audit");
await page.click(".pills a:has-text('Access')");
await page.waitForURL(/did=principal/);
await page.click(".filterbar input");
await page.keyboard.type(`who:postgres object:${options.name.split(" ")[0]}`);
await page.keyboard.press("Enter");
await page.waitForURL(/object=/);
await page.waitForFunction(() => document.querySelectorAll("details.aud").length > 2 && !document.querySelector("[aria-busy=true]"));
seen.did = (await lines(page)).map(([, verb, what]) => `${verb} ${what.replace(/ [0-9a-f]{8}$/, "")}`);
seen.match = await page.locator(".filterbar .muted").innerText();
await page.click("details.aud >> nth=-1");
await page.waitForSelector("details.aud[open] dl");
seen.entry = await page.locator("details.aud[open] dt").allInnerTexts();
await everywhere(page, "audit entry");
await page.click("details.aud[open] dl a[href*='/access']");
await page.waitForURL(/\/access/);
await page.waitForSelector("[aria-label='People and roles'] tbody tr");
seen.named = await people();
await page.goBack();
await page.waitForSelector("details.aud[open]");

// A decision leads to its call, a run to its page; a filter that matches nothing says so.
await page.goto(`${base}/audit?did=run.retried&open=${options.entry}`);
await page.waitForSelector("details.aud[open] dl");
seen.run = await page.locator("details.aud[open] dl a[href*='/runs/']").first().getAttribute("href");
await page.goto(`${base}/audit?who=nobody`);
await page.waitForSelector("text=No entry matches");
await page.goto(`${base}/audit?since=lately`);
await page.waitForSelector(".token.invalid");
await page.waitForSelector("details.aud");

// The chain: as it was written; a head that is not of it; then a row that somebody changed.
await page.click("button:has-text('Verify the chain…')");
await page.click("dialog button.primary");
await page.waitForSelector("dialog .notice.ok");
seen.chain = (await page.locator("dialog .notice").innerText()).replaceAll(/\s+/g, " ");
await everywhere(page, "chain");
await page.fill("dialog input", "17");
seen.head = await page.locator("dialog .wrong").innerText();
await page.fill("dialog input", `2:${"0".repeat(64)}`);
await page.click("dialog button.primary");
await page.waitForSelector("dialog .notice.failed");
seen.rewritten = (await page.locator("dialog .notice").innerText()).replaceAll(/\s+/g, " ");
await everywhere(page, "chain broken");

// All sessions end, this one too; what is asked next leads to the page that asks for a token.
await page.goto(`${base}/access?tab=tokens`);
await page.click("text=End all sessions…");
await everywhere(page, "end sessions");
await page.click("dialog button.danger");
await page.waitForURL(/\/sign-in/);
seen.ended = new URL(page.url()).pathname;
await end();
