// Tabs of one browser that follow a shape with the public client. Prints the rows of all tabs as a line of JSON
// whenever they change; opens, hides, shows and reloads tabs on request, and counts what each has asked.
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

const { url, params, chromium: program } = JSON.parse(process.argv[2]);
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: program, args, headless: true });
const context = await browser.newContext();
const print = (value) => console.log(JSON.stringify(value));
const origin = new URL(url).origin;
const code = `
  import { Shape, ShapeStream } from "/client.mjs";
  const stream = new ShapeStream({ ...${JSON.stringify({ url, params })}, onError: (error) => window.failed(String(error)) });
  new Shape(stream).subscribe(({ rows }) => window.shown(rows.map(({ id, title }) => ({ id: Number(id), title }))));
`;
const page = `<!doctype html><title>tab</title><script type="module">${code}</script>`;
await context.route(`${origin}/tab`, (route) => route.fulfill({ contentType: "text/html", body: page }));
await context.route(`${origin}/client.mjs`, (route) =>
  route.fulfill({ contentType: "text/javascript", path: "node_modules/@electric-sql/client/dist/index.browser.mjs" }),
);

const tabs = [];
const see = (hidden) => {
  Object.defineProperty(document, "visibilityState", { value: hidden ? "hidden" : "visible", configurable: true });
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
};
const commands = {
  open: async () => {
    const tab = { page: await context.newPage(), rows: [], asked: 0 };
    const number = tabs.push(tab) - 1;
    tab.page.on("request", (request) => (tab.asked += request.url().startsWith(url) ? 1 : 0));
    tab.page.on("pageerror", (error) => print({ error: String(error) }));
    await tab.page.exposeFunction("failed", (error) => print({ error: `tab ${number}: ${error}` }));
    await tab.page.exposeFunction("shown", (rows) => {
      tab.rows = rows;
      print({ rows: tabs.flatMap((each, n) => each.rows.map((row) => ({ tab: n, ...row }))) });
    });
    await tab.page.goto(`${origin}/tab`);
  },
  hide: (number) => tabs[number].page.evaluate(see, true),
  show: (number) => tabs[number].page.evaluate(see, false),
  reload: (number) => tabs[number].page.reload(),
  count: (number) => tabs[number].asked,
};
createInterface({ input: process.stdin }).on("line", async (line) => {
  for (const [name, value] of Object.entries(JSON.parse(line))) print({ [name]: (await commands[name](value)) ?? "done" });
});
