/** Light, dark, or what the system says. */
import { useSyncExternalStore } from "react";

import { recall, remember } from "../data/local";

export type Theme = "system" | "light" | "dark";

const watching = new Set<() => void>();
let theme: Theme = ((): Theme => {
  const stored = recall("theme");
  return stored === "light" || stored === "dark" ? stored : "system";
})();

export function applyTheme(next: Theme = theme): void {
  theme = next;
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  remember("theme", theme === "system" ? null : theme);
  for (const each of watching) each();
}

export function useTheme(): Theme {
  return useSyncExternalStore(
    (changed) => {
      watching.add(changed);
      return () => watching.delete(changed);
    },
    () => theme,
  );
}

export function nextTheme(from: Theme): Theme {
  return from === "system" ? "light" : from === "light" ? "dark" : "system";
}
