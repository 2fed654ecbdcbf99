// A component of React over an Electric collection, rendered without a browser.  Prints the rows that it shows as a
// line of JSON whenever they change; reads writes from stdin, and asks there for the transaction of each.
import { createCollection } from "@tanstack/db";
import { electricCollectionOptions } from "@tanstack/electric-db-collection";
import { useLiveQuery } from "@tanstack/react-db";
import { createElement, useEffect } from "react";
import { create } from "react-test-renderer";
import { createInterface } from "node:readline";
import { multiplexed } from "../../web/packages/fetch-client/index.js";

const { shapeOptions, socket, syncMode, key = "id", timeout = 20_000 } = JSON.parse(process.argv[2]);
const print = (value) =>
  console.log(JSON.stringify(value, (_, each) => (typeof each === "bigint" ? Number(each) : each)));

const asked = [];
/** Send a mutation to the test, which writes it; wait for the transaction as the collection does. */
async function write({ transaction }) {
  const mutations = transaction.mutations.map(({ type, original, modified, changes }) => ({ type, original, modified, changes }));
  print({ write: mutations });
  const { txid, refused } = await new Promise((then) => asked.push(then));
  if (refused) throw new Error(refused);
  return { txid, timeout };
}

const items = createCollection(
  electricCollectionOptions({
    id: "items",
    getKey: (row) => Number(row[key]),
    syncMode,
    shapeOptions: {
      ...shapeOptions,
      ...(socket ? { fetchClient: multiplexed(socket) } : {}),
      // As patient as by default, with shorter pauses.
      backoffOptions: { initialDelay: 20, maxDelay: 500, multiplier: 1.5 },
      // An answer that was cut off has status 200: only this lets the client ask again.
      onError: (error) => (error.status >= 400 ? print({ error: String(error), status: error.status }) : {}),
    },
    onInsert: write,
    onUpdate: write,
    onDelete: write,
  }),
);

function Table() {
  const { data, isReady } = useLiveQuery((query) => query.from({ item: items }).orderBy(({ item }) => item[key]));
  const shown = data.map(({ ...row }) => Object.fromEntries(Object.entries(row).filter(([name]) => !name.startsWith("$"))));
  useEffect(() => {
    if (isReady) print({ rows: shown });
  });
  return null;
}
create(createElement(Table));

const commands = {
  insert: ({ row }) => items.insert({ ...row, [key]: BigInt(row[key]) }),
  update: ({ at, changes }) => items.update(at, (draft) => void Object.assign(draft, changes)),
  delete: ({ at }) => items.delete(at),
};
createInterface({ input: process.stdin }).on("line", async (line) => {
  const given = JSON.parse(line);
  if (given.command === undefined) return asked.shift()(given);
  try {
    await commands[given.command](given).isPersisted.promise;
    print({ persisted: given.command });
  } catch (error) {
    print({ failed: error.message });
  }
});
