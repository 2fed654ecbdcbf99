/** The connection: a mark in the top bar, and a banner when it was away for three seconds. */
import { useState } from "react";

import { GRACE, isAway, lasted, useConnection } from "../data/connection";
import { duration } from "../data/format";
import { Icon } from "../parts/icon";
import { Notice } from "../parts/notice";
import { useTick } from "../parts/time";

const LOST = 60_000;

export function ConnectionMark() {
  const { state } = useConnection();
  const isLive = state !== "reconnecting";
  return (
    <span
      className={`live end${isLive ? "" : " away"}`}
      title={isLive ? "Every list on this page follows the WAL." : "The page waits for the server."}
    >
      <Icon name={isLive ? "live" : "plug"} small />
      <span className="t">{isLive ? "Live" : "Reconnecting"}</span>
    </span>
  );
}

/** Whether actions wait: as soon as the banner says so, until the server has answered. */
export function useAway(): boolean {
  useConnection();
  useTick();
  return isAway();
}

export function ConnectionBanner() {
  const connection = useConnection();
  const [tries, setTries] = useState(0);
  useTick();
  if (connection.state === "live") return null;
  if (connection.state === "caught-up")
    return (
      <Banner>
        <Notice tone="ok" live="status">
          <p className="strong">Connected again.</p>
          <p>The lists have caught up; nothing was missed.</p>
        </Notice>
      </Banner>
    );
  const away = lasted(connection);
  if (away < GRACE) return null;
  const again = (
    <button
      type="button"
      className="btn small"
      onClick={() => {
        setTries(tries + 1);
        window.dispatchEvent(new Event("online")); // what waits for a network tries again
      }}
    >
      Try now
    </button>
  );
  return away < LOST ? (
    <Banner>
      <Notice tone="retry" live="status" action={again}>
        <p className="strong">Reconnecting. What you see is from {duration(Math.floor(away / 1_000) * 1_000)} ago.</p>
        <p>You can read, filter and copy. Actions wait until the connection is back.</p>
      </Notice>
    </Banner>
  ) : (
    <Banner>
      <Notice tone="failed" live="alert" action={again}>
        <p className="strong">No connection to walagent for {duration(Math.floor(away / 60_000) * 60_000)}.</p>
        <p>
          The daemon may be stopped. <code>systemctl status walagent</code>
        </p>
      </Notice>
    </Banner>
  );
}

function Banner({ children }: { children: React.ReactNode }) {
  return <div className="banner">{children}</div>;
}
