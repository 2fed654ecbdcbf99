// Follow many shapes over one socket; print the rows of each whenever one changes, and on request
// how many sockets were opened and how many live requests were fetched.
import { createInterface } from "node:readline";
import { Shape, ShapeStream } from "@electric-sql/client";
import { multiplexed } from "../../web/packages/fetch-client/index.js";

const { url, socket, params, count, token } = JSON.parse(process.argv[2]);
const used = { sockets: 0, fetched: 0 };
class Counted extends WebSocket {
  constructor(...given) {
    super(...given);
    used.sockets += 1;
  }
}
const counting = (input, init) => {
  if (String(input).includes("live=true")) used.fetched += 1;
  return fetch(input, init);
};
const fetchClient = multiplexed(socket, { fetch: counting, WebSocket: Counted });
const shown = new Map();
for (let n = 0; n < count; n += 1) {
  const more = params.where ? { params: { ...params, params: { 1: String(n) } } } : {};
  const headers = token ? { Authorization: `Bearer ${token}` } : undefined;
  const onError = (error) => console.log(JSON.stringify({ error: String(error) }));
  const stream = new ShapeStream({ url, fetchClient, headers, onError, ...more });
  new Shape(stream).subscribe(({ rows }) => {
    shown.set(n, rows.length);
    const all = [...shown].sort(([a], [b]) => a - b).map(([shape, rows]) => ({ shape, rows }));
    console.log(JSON.stringify({ rows: all }));
  });
}
createInterface({ input: process.stdin }).on("line", () => console.log(JSON.stringify({ used })));
