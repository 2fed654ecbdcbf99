// Uses the page of docs/how-to/live-ui.md; prints its rows as a line of JSON whenever they change.
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

const { url, chromium: program } = JSON.parse(process.argv[2]);
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: program, args, headless: true });
const page = await browser.newPage();
const print = (value) => console.log(JSON.stringify(value));
page.setDefaultTimeout(20_000);
page.on("pageerror", (error) => print({ error: String(error) }));
let asking;
page.on("dialog", (dialog) => {
  if (dialog.type() === "prompt") return (asking = dialog), print({ asked: dialog.message() });
  print({ said: dialog.message() });
  return dialog.dismiss();
});
const commands = {
  add: async (subject) => {
    await page.getByLabel("Subject").fill(subject);
    await page.getByRole("button", { name: "Add" }).click();
  },
  answer: (text) => asking.accept(text),
  // The box follows the row, so it is checked once the row is rendered.
  select: (subject) => page.getByLabel(subject).click(),
};
createInterface({ input: process.stdin }).on("line", async (line) => {
  for (const [name, value] of Object.entries(JSON.parse(line))) await commands[name](value);
});

await page.exposeFunction("show", (rows) => print({ rows }));
await page.goto(url);
await page.getByRole("heading", { name: "Tickets" }).waitFor();
await page.evaluate(() => {
  let before;
  setInterval(() => {
    const rows = [...document.querySelectorAll("li")].map((each) => ({ subject: each.textContent, done: each.querySelector("input").checked }));
    if (JSON.stringify(rows) !== before) window.show(rows);
    before = JSON.stringify(rows);
  }, 20);
});
