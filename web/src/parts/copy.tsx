/** Buttons that copy. */
import { useState } from "react";

import { Icon, type IconName } from "./icon";

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // plain http on another host has no clipboard API
  }
}

function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "vh";
  document.body.append(area);
  area.select();
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- nothing else copies without the clipboard API
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

export function Copy({
  text,
  label = "Copy",
  className = "copy",
  icon = "copy",
}: {
  text: string | (() => string);
  label?: string;
  className?: string;
  icon?: IconName;
}) {
  const [said, say] = useState<string | null>(null);
  const go = async () => {
    say((await copy(typeof text === "function" ? text() : text)) ? "Copied" : "Not copied");
    setTimeout(() => say(null), 1_500);
  };
  return (
    <button className={className} type="button" onClick={go}>
      <Icon name={said === "Copied" ? "s-ok" : icon} small={className === "copy"} />
      <span aria-live="polite">{said ?? label}</span>
    </button>
  );
}
