/** What this browser remembers; a browser that forbids it remembers nothing. */
export function recall(key: string): string | null {
  try {
    return localStorage.getItem(`walagent.${key}`);
  } catch {
    return null;
  }
}

export function remember(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`walagent.${key}`);
    else localStorage.setItem(`walagent.${key}`, value);
  } catch {
    // Private windows of some browsers: the choice lasts as long as the page.
  }
}

/** Whether the page has the width of a phone, or of a desk at 200 %. */
export const isNarrow = (): boolean => matchMedia("(max-width: 799px)").matches;

/** Whether keys are named as on a Mac. */
export const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
