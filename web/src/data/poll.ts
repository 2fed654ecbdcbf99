/** Read something again and again. */

const LONGEST = 60_000;

export interface Polled<T> {
  read: (signal: AbortSignal) => Promise<T>;
  /** Milliseconds from an answer to the next request; undefined: one request. */
  every?: number | undefined;
  shown: (found: T) => void;
  failed: (problem: unknown) => void;
  isHidden?: () => boolean;
}

/**
 * Read at once, then again after each answer, and later and later while it fails.
 *
 * An answer is never overtaken: the slower they are, the fewer are asked for. The function that is
 * returned stops it, and cancels the request that is on its way.
 */
export function poll<T>({ read, every, shown, failed, isHidden = () => document.hidden }: Polled<T>): () => void {
  const stop = new AbortController();
  const isStopped = () => stop.signal.aborted;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let failures = 0;
  const turn = async () => {
    try {
      const found = await read(stop.signal);
      if (isStopped()) return;
      failures = 0;
      shown(found);
    } catch (problem) {
      if (isStopped()) return;
      failures += 1;
      failed(problem);
    }
    if (every) again(Math.min(every * 2 ** failures, Math.max(every, LONGEST)));
  };
  const again = (delay: number) => {
    timer = setTimeout(() => (isHidden() ? again(delay) : void turn()), delay);
  };
  void turn();
  return () => {
    clearTimeout(timer);
    stop.abort();
  };
}
