/** What Back returns to: the scroll of each address in the history, and what its page had loaded. */
const PLACES = 50; // addresses that are remembered
const PATIENCE = 5_000; // milliseconds for a page to become as high as it was

interface Moved {
  location: { state: object };
  action: { type: string };
}

const scrolls = new Map<string, number>();
const values = new Map<string, unknown>();

function keyOf(state: unknown): string {
  return (state as { __TSR_key?: string } | null)?.__TSR_key ?? "";
}

function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  map.set(key, value);
  for (const old of map.keys()) {
    if (map.size <= PLACES) break;
    map.delete(old);
  }
}

/** Keep a value of the page for those who come back to its address by Back and Forward. */
export function keep(name: string, value: unknown): void {
  remember(values, `${keyOf(history.state)} ${name}`, value);
}

/** What was kept when this address was left; undefined: it is new. */
export function kept(name: string): unknown {
  return values.get(`${keyOf(history.state)} ${name}`);
}

/** Forget all, such as after signing out. */
export function forgetBack(): void {
  scrolls.clear();
  values.clear();
}

/** Return to where a page was left once it is as high as it was then: its rows come after it. */
export function returnByBack(listen: (moved: (to: Moved) => void) => void): void {
  let stop: (() => void) | undefined;
  addEventListener("scroll", () => remember(scrolls, keyOf(history.state), scrollY), { passive: true });
  listen(({ location, action }) => {
    stop?.();
    const wanted = scrolls.get(keyOf(location.state));
    if (wanted && ["BACK", "FORWARD", "GO"].includes(action.type)) stop = hold(wanted);
  });
}

const INPUTS = ["wheel", "touchstart", "keydown", "pointerdown"] as const;

function hold(wanted: number): () => void {
  const go = () => {
    if (document.documentElement.scrollHeight - innerHeight >= wanted - 1) scrollTo(0, wanted);
  };
  const seen = new ResizeObserver(go);
  const stop = () => {
    seen.disconnect();
    clearTimeout(timer);
    for (const each of INPUTS) removeEventListener(each, stop, true);
  };
  const timer = setTimeout(stop, PATIENCE);
  for (const each of INPUTS) addEventListener(each, stop, true); // who moves is not moved
  seen.observe(document.body);
  return stop;
}
