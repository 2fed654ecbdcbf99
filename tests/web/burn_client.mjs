// Requests in the form of Burn's front end: collections of the public client, and mutations of TanStack DB.
import { createCollection, createTransaction } from "@tanstack/db";
import { electricCollectionOptions } from "@tanstack/electric-db-collection";

const { url } = JSON.parse(process.argv[2]);

/** A person with the cookie of one browser; what the bearer says means nothing. */
async function person(username) {
  const answer = await fetch(`${url}/auth/sign-in`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer undefined" },
    body: JSON.stringify({ avatar_url: null, username }),
  });
  const user = await answer.json();
  const cookie = answer.headers.get("set-cookie").split(";")[0];
  const headers = { Authorization: async () => `Bearer ${user.id}` };
  const fetchClient = (input, init) => fetch(input, { ...init, headers: { ...Object.fromEntries(new Headers(init?.headers)), cookie } });
  const parser = { timestamp: (text) => new Date(`${text}Z`) };

  const send = async ({ transaction }) => {
    const mutations = transaction.mutations.map(({ collection, ...mutation }) => {
      if (mutation.type === "insert") mutation.syncMetadata = { relation: ["public", collection.id] };
      return { ...mutation, syncMetadata: mutation.syncMetadata };
    });
    const sent = await fetch(`${url}/ingest/mutations`, {
      method: "POST",
      headers: { "content-type": "application/json", cookie, authorization: `Bearer ${user.id}` },
      body: JSON.stringify({ mutations }),
    });
    const body = await sent.json();
    if (!sent.ok) throw new Error(`${sent.status} ${body.message}`);
    const changed = new Set(transaction.mutations.map((mutation) => mutation.collection));
    await Promise.all([...changed].map((each) => each.utils.awaitTxId(parseInt(body.txid, 10), 20_000)));
  };
  const collections = {};
  for (const id of ["users", "threads", "memberships", "events", "facts"]) {
    const options = electricCollectionOptions({
      id,
      getKey: (row) => row.id,
      shapeOptions: { url: `${url}/sync/${id}`, headers, parser, fetchClient },
      onInsert: send,
      onUpdate: send,
      onDelete: send,
    });
    collections[id] = createCollection(options);
    await collections[id].preload();
  }
  return { user, send, ...collections };
}

async function until(check) {
  const end = Date.now() + 20_000;
  while (!check()) {
    if (Date.now() > end) throw new Error(`not in time: ${check}`);
    await new Promise((then) => setTimeout(then, 20));
  }
}

const alice = await person("alice");
const bob = await person("bob");
const seen = {};

// The button: a thread and its owner in one transaction.
const id = crypto.randomUUID();
const opening = createTransaction({ mutationFn: alice.send });
opening.mutate(() => {
  alice.threads.insert({ id, name: "Untitled thread 2", status: "started" });
  alice.memberships.insert({ id: crypto.randomUUID(), role: "owner", thread_id: id, user_id: alice.user.id });
});
await opening.isPersisted.promise;
const members = (each) => each.memberships.toArray.filter((row) => row.thread_id === id);
seen.roles = members(alice).map((row) => row.role).toSorted();
seen.inserted = alice.threads.get(id).inserted_at instanceof Date;

// The link; a role that is claimed is refused, and the optimistic row goes.
const claimed = bob.memberships.insert({ id: crypto.randomUUID(), thread_id: id, user_id: bob.user.id, role: "owner" });
seen.claimed = await claimed.isPersisted.promise.then(() => "accepted", (error) => error.message);
await bob.memberships.insert({ id: crypto.randomUUID(), thread_id: id, user_id: bob.user.id, role: "member" }).isPersisted.promise;
await until(() => bob.threads.has(id) && members(alice).length === 5);
seen.joined = members(bob).length;

// A message has the ID that its author chose.
const text = crypto.randomUUID();
await bob.events.insert({ id: text, thread_id: id, user_id: bob.user.id, type: "text", data: { text: "I like chess" } }).isPersisted.promise;
await until(() => alice.events.has(text) && alice.facts.toArray.some((row) => row.object === "chess"));
const fact = alice.facts.toArray[0];
seen.fact = [fact.subject_id === bob.user.id, fact.source_event_id === text, Number(fact.confidence), fact.disputed];
await until(() => alice.events.has(fact.tool_use_event_id));
seen.call = alice.events.get(fact.tool_use_event_id).data.name;

// Edit.
await bob.threads.update(id, (draft) => void (draft.name = "Hobbies")).isPersisted.promise;
await until(() => alice.threads.get(id).name === "Hobbies");
await until(() => members(alice).every((row) => alice.users.has(row.user_id)));
const named = (name) => members(alice).find((row) => alice.users.get(row.user_id)?.name === name);
seen.producer = await alice.memberships.delete(named("sarah").id).isPersisted.promise.then(() => "accepted", (error) => error.message);
await alice.memberships.delete(named("jerry").id).isPersisted.promise;
await until(() => members(bob).length === 4);
seen.left = members(alice).map((row) => alice.users.get(row.user_id).name).toSorted();
// Bob's own thread is none of Alice's business.
seen.threads = [alice.threads.size, bob.threads.size];
console.log(JSON.stringify(seen));
process.exit(0);
