/** Where a person goes on after signing in. */
const SIGN_IN = "/sign-in";

/** Where to go after signing in: never to the sign-in again, however often it was wrapped, nor elsewhere. */
export function landing(to: string | undefined): string {
  if (!to || !/^\/(?![/\\])/.test(to)) return "/";
  const [path, ...search] = to.split("?");
  return path === SIGN_IN ? landing(new URLSearchParams(search.join("?")).get("to") ?? undefined) : to;
}
