/**
 * The fetch of shapes: all live requests of this page wait in one, since a browser has six
 * connections for all tabs of a server.
 */
import { at } from "./base";
import { answered, unanswered } from "./connection";

interface Waiting {
  url: string;
  resolve: (response: Response) => void;
  reject: (error: unknown) => void;
}

interface Answer {
  id: number;
  status: number;
  headers: Record<string, string>;
  body: string;
}

const TOGETHER = 10; // milliseconds in which requests join a batch
const waiting = new Map<number, Waiting>();
let last = 0;
let batch: AbortController | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

export const shapeFetch: typeof fetch = async (input, init) => {
  const url = String(input instanceof Request ? input.url : input);
  if (new URL(url, location.href).searchParams.get("live") === "true") return joined(url, init?.signal ?? undefined);
  try {
    const response = await fetch(input, { ...init, credentials: "same-origin" });
    if (response.status < 500) answered();
    else unanswered();
    return response;
  } catch (error) {
    if (!init?.signal?.aborted) unanswered();
    throw error;
  }
};

function joined(url: string, signal: AbortSignal | undefined): Promise<Response> {
  return new Promise((resolve, reject) => {
    const id = ++last;
    if (signal?.aborted) return reject(signal.reason);
    waiting.set(id, { url, resolve, reject });
    signal?.addEventListener("abort", () => waiting.delete(id) && reject(signal.reason), { once: true });
    again();
  });
}

/** Send what waits, instead of the batch that is under way. */
function again(): void {
  timer ??= setTimeout(() => {
    timer = undefined;
    batch?.abort();
    if (waiting.size) void send();
  }, TOGETHER);
}

async function send(): Promise<void> {
  const stop = new AbortController();
  batch = stop;
  const sent = [...waiting].slice(0, 50);
  try {
    const response = await fetch(at("v1/batch"), {
      method: "POST",
      credentials: "same-origin",
      cache: "no-store",
      headers: { "content-type": "application/json", "x-walagent-request": "1" },
      body: JSON.stringify({ requests: sent.map(([id, each]) => ({ id, url: each.url })) }),
      signal: stop.signal,
    });
    if (response.status < 500) answered();
    else unanswered();
    const text = await response.text();
    if (!response.ok) {
      for (const [id] of sent) settle(id, (each) => each.resolve(new Response(text, { status: response.status })));
      return;
    }
    for (const answer of (JSON.parse(text) as { answers: Answer[] }).answers) {
      const hasBody = answer.status !== 204 && answer.status !== 304;
      settle(answer.id, (each) => each.resolve(new Response(hasBody ? answer.body : null, { status: answer.status, headers: answer.headers })));
    }
    if (waiting.size) again();
  } catch (error) {
    if (stop.signal.aborted) return; // the next batch has them
    unanswered();
    for (const [id] of sent) settle(id, (each) => each.reject(error));
  }
}

function settle(id: number, how: (each: Waiting) => void): void {
  const found = waiting.get(id);
  waiting.delete(id);
  if (found) how(found);
}
