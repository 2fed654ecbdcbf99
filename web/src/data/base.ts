/** The path under which the server mounts the console: "/" or "/prefix/". */
export const base: string = (() => {
  const meta = document.querySelector<HTMLMetaElement>('meta[name="walagent-base"]');
  const path = meta?.content || "/";
  return path.endsWith("/") ? path : `${path}/`;
})();

/** The address of a route of the server, such as `v1/session`. */
export function at(path: string): string {
  return `${location.origin}${base}${path}`;
}
