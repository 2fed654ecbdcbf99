/** A fetch for clients of shapes: live requests share one WebSocket. */

const PATIENCE = 60_000; // milliseconds for an answer; the server holds a request for 20 seconds
const LONGEST = 30_000; // milliseconds between attempts to open a socket
const TOO_LARGE = 413;
const WITHOUT_BODY = new Set([204, 304]);

export function multiplexed(url, options = {}) {
  const plain = options.fetch ?? ((...given) => globalThis.fetch(...given));
  const kind = options.WebSocket ?? globalThis.WebSocket;
  const address = String(url).replace(/^http/, "ws");
  const lines = new Map(); // by token

  return async (input, init) => {
    const request = input instanceof Request ? input : undefined;
    const target = new URL(request?.url ?? String(input), globalThis.location?.href);
    const method = (init?.method ?? request?.method ?? "GET").toUpperCase();
    const asked = target.searchParams;
    if (!kind || method !== "GET" || asked.get("live") !== "true" || asked.get("live_sse") === "true")
      return plain(input, init);
    const authorization = new Headers(init?.headers ?? request?.headers).get("authorization") ?? "";
    const token = authorization.replace(/^bearer +/i, "");
    let line = lines.get(token);
    if (!line) lines.set(token, (line = new Line(kind, address, token)));
    const answer = await line.ask(target.pathname + target.search, init?.signal ?? request?.signal);
    if (!answer || answer.status === TOO_LARGE) return plain(input, init);
    return new Response(WITHOUT_BODY.has(answer.status) ? null : answer.body, {
      status: answer.status,
      headers: answer.headers,
    });
  };
}

/** One socket, opened when it is needed, and again after it was lost. */
class Line {
  #kind;
  #address;
  #token;
  #socket;
  #opening;
  #last = 0;
  #waiting = new Map(); // by number
  #failures = 0;
  #notBefore = 0;

  constructor(kind, address, token) {
    this.#kind = kind;
    this.#address = address;
    this.#token = token;
  }

  /** Return the answer; undefined: no socket can be opened at present. */
  async ask(url, signal) {
    signal?.throwIfAborted();
    const socket = await this.#open();
    if (!socket) return undefined;
    signal?.throwIfAborted();
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      const left = () => {
        if (socket.readyState === socket.OPEN) socket.send(JSON.stringify({ id, cancel: true }));
        end(reject, signal.reason);
      };
      const end = (how, value) => {
        clearTimeout(late);
        signal?.removeEventListener("abort", left);
        this.#waiting.delete(id);
        how(value);
      };
      const late = setTimeout(() => socket.close(), PATIENCE); // half-open: nothing says so
      this.#waiting.set(id, {
        answer: (value) => end(resolve, value),
        lose: () => end(reject, new TypeError("the connection was lost")),
      });
      signal?.addEventListener("abort", left, { once: true });
      socket.send(JSON.stringify({ id, url }));
    });
  }

  #open() {
    if (this.#socket) return this.#socket;
    if (!this.#opening && Date.now() < this.#notBefore) return undefined;
    this.#opening ??= new Promise((resolve) => {
      const socket = new this.#kind(this.#address);
      socket.onopen = () => {
        this.#opening = undefined;
        this.#failures = 0;
        this.#socket = socket;
        if (this.#token) socket.send(JSON.stringify({ token: this.#token }));
        resolve(socket);
      };
      socket.onmessage = ({ data }) => {
        const answer = JSON.parse(data);
        this.#waiting.get(answer.id)?.answer(answer);
      };
      let lost = false;
      socket.onclose = socket.onerror = () => {
        if (lost) return;
        lost = true;
        if (this.#socket === socket) {
          this.#socket = undefined;
          for (const each of [...this.#waiting.values()]) each.lose();
        } else {
          this.#opening = undefined;
          const pause = Math.min(LONGEST, 1_000 * 2 ** this.#failures++);
          this.#notBefore = Date.now() + pause * (0.5 + Math.random() / 2);
          resolve(undefined);
        }
      };
    });
    return this.#opening;
  }
}
