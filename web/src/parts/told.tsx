import { Link } from "@tanstack/react-router";
import { Fragment } from "react";

import { minute } from "../data/format";
import { pieces } from "../data/told";
import { useZone } from "../data/zone";
import { Time } from "./time";

/** A sentence of the server, with links to its runs and its times in the zone of the page. */
export function Told({ text }: { text: string }) {
  const zone = useZone();
  return (
    <span>
      {pieces(text).map((each, i) => (
        <Fragment key={i}>
          {typeof each === "string" ? (
            each
          ) : "run" in each ? (
            <Link to="/runs/$run" params={{ run: each.run }}>
              run {each.run}
            </Link>
          ) : (
            <Time at={each.at} text={minute(each.at, zone)} />
          )}
        </Fragment>
      ))}
    </span>
  );
}
