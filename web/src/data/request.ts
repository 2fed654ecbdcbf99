/** Requests to the server: with the cookie, and the header that every write needs. */
import { at } from "./base";
import { answered, unanswered } from "./connection";
import { parsed } from "./exact";

/** What the server answers instead of a result. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code?: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}

/** Any error as one that can be shown. */
export function refused(error: unknown): Refused {
  return error instanceof Refused
    ? error
    : new Refused(0, error instanceof Error ? error.message : String(error), undefined, "Load the page again.");
}

interface Problem {
  message?: string;
  code?: string;
  hint?: string;
}

let signedOut: (() => void) | undefined;

/** Call *then* when the server says that nobody is signed in. */
export function whenSignedOut(then: () => void): void {
  signedOut = then;
}

/** Show the sign-in: the server knows no session. */
export function endSession(): void {
  signedOut?.();
}

export async function request<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(method, path, body, signal);
  if (response.status === 204) return undefined as T;
  const text = await response.text();
  if (response.ok) return (text ? parsed(text) : undefined) as T;
  const problem = parse(text);
  if (response.status === 401 && !path.startsWith("v1/session")) signedOut?.();
  throw new Refused(
    response.status,
    problem.message ?? `The server answered ${response.status}.`,
    problem.code,
    problem.hint,
  );
}

async function send(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (method !== "GET") headers["x-walagent-request"] = "1";
  if (body !== undefined) headers["content-type"] = "application/json";
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal) init.signal = signal;
  try {
    const response = await fetch(at(path), init);
    answered();
    return response;
  } catch (error) {
    if (signal?.aborted) throw error;
    unanswered();
    throw new Refused(
      0,
      "The server did not answer.",
      undefined,
      "Check that walagent runs: systemctl status walagent",
    );
  }
}

function parse(text: string): Problem {
  try {
    return JSON.parse(text) as Problem;
  } catch {
    return {};
  }
}
