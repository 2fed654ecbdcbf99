/** Sign-in: by the code in the fragment of the link, else by a token. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, type SubmitEvent, useEffect, useRef, useState } from "react";

import { landing } from "../data/landing";
import { Refused, refused } from "../data/request";
import { signIn } from "../data/session";
import { applyTheme, nextTheme, useTheme } from "../frame/theme";
import { useTitle } from "../frame/title";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Notice } from "../parts/notice";

/** Take the code out of the address, so that neither history nor a copied link has it. */
function takeCode(): string | null {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) history.replaceState(history.state, "", location.pathname + location.search);
  return code;
}

// A link has the port that the command knows: of a file, or the default.
const LINK = `walagent console --link${["", "8642"].includes(location.port) ? "" : ` --http ${location.port}`}`;

export function SignIn(): ReactNode {
  useTitle("Sign in");
  const theme = useTheme();
  const navigate = useNavigate();
  const { to, ended } = useSearch({ from: "/sign-in" });
  const [token, setToken] = useState("");
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState<{ error: Refused; byCode: boolean } | null>(null);
  const code = useRef<string | null | undefined>(undefined);

  const enter = async (secret: { code: string } | { token: string }) => {
    setSending(true);
    setProblem(null);
    try {
      await signIn(secret);
      await navigate({ href: landing(to), replace: true });
    } catch (error) {
      setProblem({ error: refused(error), byCode: "code" in secret });
      setSending(false);
    }
  };
  useEffect(() => {
    if (code.current !== undefined) return;
    code.current = takeCode();
    if (code.current) void enter({ code: code.current });
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (token.trim()) void enter({ token: token.trim() });
  };
  return (
    <main className="signin">
      <div className="stack">
        {ended && !problem && (
          <Notice tone="info" live="status">
            <p className="strong">Your session has ended.</p>
            <p>Sign in again to go on where you were.</p>
          </Notice>
        )}
        <section className="panel" aria-labelledby="si">
          <div className="brand">
            <Icon name="logo" />
            <span className="show">walagent</span>
          </div>
          <div className="stack tight">
            <h1 id="si">Sign in</h1>
            <p className="soft">
              Open the link that <code>walagent run</code> printed in its terminal. It works once, for 5 minutes.
            </p>
          </div>
          <pre tabIndex={0} className="code wrap">
            {location.origin}
            {location.pathname}#<span className="nv">code=…</span>
          </pre>
          <div className="stack tight">
            <p className="soft">No terminal at hand? Print a new link:</p>
            <div className="row">
              <pre tabIndex={0} className="code grow">
                {LINK}
              </pre>
              <Copy text={LINK} />
            </div>
          </div>
          <form className="stack tight" onSubmit={submit}>
            <label className="field">
              Or paste a token
              <input
                type="password"
                autoComplete="off"
                spellCheck={false}
                placeholder="wla_…"
                value={token}
                onChange={(event) => setToken(event.target.value)}
              />
            </label>
            <div className="row">
              <button className="btn primary" type="submit" disabled={isSending || !token.trim()}>
                {isSending ? "Signing in" : "Sign in"}
              </button>
              <button
                className="btn quiet icon end"
                type="button"
                aria-label={`Theme: ${theme}. Change to ${nextTheme(theme)}`}
                onClick={() => applyTheme(nextTheme(theme))}
              >
                <Icon name="theme" />
              </button>
            </div>
          </form>
        </section>
        {problem && <SignInProblem {...problem} />}
      </div>
    </main>
  );
}

function SignInProblem({ error, byCode }: { error: Refused; byCode: boolean }) {
  if (error.status === 401 && byCode)
    return (
      <Notice tone="failed" icon="s-failed" live="alert">
        <p className="strong">This link was used or is too old.</p>
        <p>
          If you did not open it, end all sessions: <code>walagent console --sign-out-all</code>
        </p>
      </Notice>
    );
  return (
    <Notice tone="failed" icon="s-failed" live="alert">
      <p className="strong">
        {error.status === 401 ? "This token is not valid: unknown, expired or revoked." : error.message}
      </p>
      {error.hint && <p>{error.hint}</p>}
    </Notice>
  );
}
