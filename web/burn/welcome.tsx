/** Sign-in: a name, and the avatar that GitHub has for it, loaded by this browser. */
import { type SubmitEvent, useEffect, useState } from "react";

import { Refused, refused } from "../src/data/request";
import { Icon } from "../src/parts/icon";
import { Notice } from "../src/parts/notice";
import { Avatar } from "./avatar";
import { signIn, type User } from "./data";
import { ThemeButton } from "./sidebar";

const NAME = /^[a-z0-9_-]{2,16}$/;
const PAUSE = 500;

export function Welcome({ onUser }: { onUser: (user: User) => void }) {
  const [text, setText] = useState("");
  const [avatar, setAvatar] = useState<string | null>(null);
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState<Refused | null>(null);
  const name = text.trim().toLowerCase();
  const isName = NAME.test(name);
  useEffect(() => {
    setAvatar(null);
    if (!isName) return;
    const waiting = setTimeout(() => {
      const address = `https://github.com/${name}.png?size=80`;
      const image = new Image();
      image.referrerPolicy = "no-referrer";
      image.onload = () => setAvatar(address);
      image.src = address;
    }, PAUSE);
    return () => clearTimeout(waiting);
  }, [name, isName]);
  const enter = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!isName) return setProblem(new Refused(400, "A name has 2 to 16 letters, digits, _ or -."));
    setSending(true);
    setProblem(null);
    try {
      onUser(await signIn(name, avatar));
    } catch (error) {
      setProblem(refused(error));
      setSending(false);
    }
  };
  return (
    <main className="welcome">
      <section className="panel" aria-labelledby="welcome">
        <div className="row between">
          <div className="brand">
            <svg className="i" aria-hidden="true">
              <use href="#i-flame" />
            </svg>
            Burn
          </div>
          <ThemeButton />
        </div>
        <div className="stack tight">
          <h1 id="welcome">Get roasted by agents</h1>
          <p className="soft">
            Sarah asks questions and stores facts about you; Jerry and Frankie make jokes from them. All of it is rows
            of a PostgreSQL database, which this page shows as they change.
          </p>
        </div>
        <form className="stack tight" onSubmit={enter}>
          <div className="who">
            <Avatar user={{ name: name || "?", type: "human", avatar_url: avatar }} />
            <label className="field grow">
              Your name
              <input
                type="text"
                name="username"
                autoComplete="username"
                autoFocus
                spellCheck={false}
                maxLength={16}
                value={text}
                onChange={(event) => setText(event.target.value)}
              />
            </label>
            <button className="btn primary" type="submit" disabled={isSending || !name}>
              {isSending ? "Entering" : "Enter"}
            </button>
          </div>
          <p className="muted">
            There is no password: the name belongs to this browser. An avatar is loaded from GitHub.
          </p>
        </form>
        {problem && (
          <Notice tone="failed" icon="s-failed" live="alert">
            <p className="strong">
              {problem.code === "23514" ? "A name has 2 to 16 letters, digits, _ or -." : problem.message}
            </p>
            {problem.hint && <p>{problem.hint}</p>}
          </Notice>
        )}
        <p className="muted row">
          <Icon name="lock" small />
          What is said in a thread is sent to the model of its agents.
        </p>
      </section>
    </main>
  );
}
