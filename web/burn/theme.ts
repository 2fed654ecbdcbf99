/** Burn is dark at first; then light, then what the system says. */
import { recall, remember } from "../src/data/local";
import { applyTheme, type Theme } from "../src/frame/theme";

const ORDER: readonly Theme[] = ["dark", "light", "system"];

export function firstTheme(): Theme {
  const stored = recall("burn.theme") as Theme | null;
  return stored && ORDER.includes(stored) ? stored : "dark";
}

export function following(theme: Theme): Theme {
  return ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length] ?? theme;
}

export function chooseTheme(theme: Theme): void {
  remember("burn.theme", theme);
  applyTheme(theme);
}
