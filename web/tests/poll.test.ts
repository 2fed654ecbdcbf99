import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { poll } from "../src/data/poll";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const later = <T>(value: T, delay: number, signal?: AbortSignal) =>
  new Promise<T>((found, failed) => {
    setTimeout(() => found(value), delay);
    signal?.addEventListener("abort", () => failed(new Error("aborted")));
  });

function watched(given: Partial<Parameters<typeof poll<number>>[0]> = {}) {
  const seen = { asked: 0, shown: [] as number[], failed: 0, aborted: 0 };
  const stop = poll<number>({
    read: (signal) => {
      seen.asked += 1;
      signal.addEventListener("abort", () => (seen.aborted += 1));
      return Promise.resolve(seen.asked);
    },
    every: 5_000,
    shown: (found) => seen.shown.push(found),
    failed: () => (seen.failed += 1),
    isHidden: () => false,
    ...given,
  });
  return { seen, stop };
}

test("an answer that takes longer than the interval is shown, and asked for once at a time", async () => {
  let asked = 0;
  const { seen } = watched({ read: () => later(++asked, 6_000) });
  await vi.advanceTimersByTimeAsync(30_000);
  expect(seen.shown).toEqual([1, 2, 3]);
  expect(asked).toBe(3);
});

test("failures are asked for later and later, at most a minute", async () => {
  const times: number[] = [];
  const { seen } = watched({
    read: () => {
      times.push(Date.now());
      return Promise.reject(new Error("no"));
    },
  });
  await vi.advanceTimersByTimeAsync(300_000);
  const gaps = times.slice(1).map((time, n) => time - (times[n] ?? 0));
  expect(gaps.slice(0, 5)).toEqual([10_000, 20_000, 40_000, 60_000, 60_000]);
  expect(seen.failed).toBe(times.length);
});

test("after a failure that is over, it is asked for as often as before", async () => {
  let asked = 0;
  watched({ read: () => (++asked === 2 ? Promise.reject(new Error("no")) : Promise.resolve(asked)) });
  await vi.advanceTimersByTimeAsync(5_000 + 10_000 + 5_000);
  expect(asked).toBe(4);
});

test("nothing is asked for while the page is hidden, but the first time", async () => {
  let isHidden = true;
  const { seen } = watched({ isHidden: () => isHidden });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(seen.asked).toBe(1);
  isHidden = false;
  await vi.advanceTimersByTimeAsync(5_000);
  expect(seen.asked).toBe(2);
});

test("what is stopped is cancelled and never shown", async () => {
  const { seen, stop } = watched({ read: (signal) => later(1, 1_000, signal) });
  await vi.advanceTimersByTimeAsync(500);
  stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(seen).toMatchObject({ shown: [], failed: 0 });
});

test("without an interval it is read once", async () => {
  const { seen } = watched({ every: undefined });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(seen.asked).toBe(1);
});
