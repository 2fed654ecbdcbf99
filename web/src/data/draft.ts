/** Texts that were typed and not sent: they outlive a reload and Back, and end with the tab. */
import { useState } from "react";

const PREFIX = "walagent.typed.";

function read(name: string): string {
  try {
    return sessionStorage.getItem(PREFIX + name) ?? "";
  } catch {
    return ""; // a browser that forbids it: the text lasts as long as the page
  }
}

function write(name: string, text: string): void {
  try {
    if (text) sessionStorage.setItem(PREFIX + name, text);
    else sessionStorage.removeItem(PREFIX + name);
  } catch {
    // as above
  }
}

/** The text of a field, kept under *name* until it is sent, which empties it. */
export function useTyped(name: string): [string, (text: string) => void] {
  const [typed, setTyped] = useState({ name, text: read(name) });
  const set = (text: string) => {
    write(name, text);
    setTyped({ name, text });
  };
  return [typed.name === name ? typed.text : read(name), set];
}

/** Forget all, such as after signing out. */
export function forgetTyped(): void {
  try {
    for (const name of Object.keys(sessionStorage)) if (name.startsWith(PREFIX)) sessionStorage.removeItem(name);
  } catch {
    // there is none
  }
}
