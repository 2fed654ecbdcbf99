/** One entry of the audit: a line; opened, all that was recorded. */
import { Link } from "@tanstack/react-router";

import {
  type AuditFilter,
  type AuditRow,
  detailLine,
  detailPage,
  isInstant,
  objectPage,
  parts,
  short,
  text,
} from "../data/audit";
import { absolute, minute } from "../data/format";
import { visible } from "../data/visible";
import { useZone } from "../data/zone";
import { Initial } from "../parts/avatar";
import { Copy } from "../parts/copy";
import { Opener } from "../parts/opener";
import { State } from "../parts/state";
import { Time } from "../parts/time";

const WHO = {
  user: "a person",
  service: "a service",
  agent: "an agent",
  login: "a login without a principal",
  walagent: "walagent itself",
} as const;
const STATES = ["approved", "rejected", "edited", "expired", "cancelled", "refused", "paused"];

interface EntryProps {
  row: AuditRow;
  filter: AuditFilter;
  isOpen: boolean;
  toggle: (entry: string) => void;
}

export function Entry({ row, filter, isOpen, toggle }: EntryProps) {
  const { noun, verb } = parts(row.action);
  const zone = useZone();
  const line = detailLine(row.detail, (at) => minute(at, zone));
  return (
    <details className="grp aud" open={isOpen}>
      <Opener
        toggle={() => {
          toggle(row.number);
        }}
      >
        <span className="muted nowrap">
          <Time at={row.at} />
        </span>
        <span className="who">
          <Initial name={row.principal} isAgent={row.kind !== "user" && row.kind !== "login"} small />
          <bdi className="clip" title={row.principal}>
            {visible(row.principal)}
          </bdi>
        </span>
        <span className="nowrap">
          {STATES.includes(verb) ? (
            <State state={verb === "refused" ? "failed" : verb} word={verb} bare />
          ) : (
            <span className="soft">{verb}</span>
          )}
        </span>
        <span className="clip" title={`${noun} ${row.object}`}>
          <span className="muted">{noun}</span> <bdi className="strong">{visible(short(row.object))}</bdi>
        </span>
        <span className="clip soft" title={line}>
          {visible(line)}
        </span>
      </Opener>
      {isOpen && <Whole row={row} filter={filter} />}
    </details>
  );
}

function Whole({ row, filter }: { row: AuditRow; filter: AuditFilter }) {
  const zone = useZone();
  const page = objectPage(row);
  const [here, utc] = absolute(row.at, zone).split("\n");
  const only = (name: "who" | "did" | "object", value: string) =>
    /[\s,]/.test(value) ? null : (
      <Link className="btn small quiet" to="/audit" search={{ ...filter, [name]: value, open: row.number }}>
        Only {name}:{value}
      </Link>
    );
  return (
    <div className="gbody">
      <dl className="kv">
        <dt>Entry</dt>
        <dd>
          <Link to="/audit" search={{ entry: row.number, open: row.number }} title={minute(row.at, zone)}>
            {row.number}
          </Link>
        </dd>
        <dt>When</dt>
        <dd>
          {here}
          {utc && <span className="muted"> {utc}</span>}
        </dd>
        <dt>Who</dt>
        <dd>
          <bdi>{visible(row.principal)}</bdi> <span className="muted">{WHO[row.kind]}</span>
        </dd>
        <dt>Login</dt>
        <dd>
          <code>{visible(row.login)}</code>
        </dd>
        <dt>Did</dt>
        <dd>
          <code>{row.action}</code>
        </dd>
        <dt>What</dt>
        <dd>
          {page ? <Link {...page}>{visible(row.object)}</Link> : <bdi>{visible(row.object)}</bdi>}{" "}
          <Copy text={row.object} />
        </dd>
        {Object.entries(row.detail).map(([name, value]) => {
          const to = detailPage(name, value);
          const shown = isInstant(value) ? minute(value, zone) : visible(text(value)) || "none";
          return (
            <div className="contents" key={name}>
              <dt>{name}</dt>
              <dd>{to ? <Link {...to}>{shown}</Link> : <bdi>{shown}</bdi>}</dd>
            </div>
          );
        })}
        <dt>Digest</dt>
        <dd>
          <code>{row.digest}</code> <Copy text={`${row.number}:${row.digest}`} label="Copy as a head" />
        </dd>
      </dl>
      <div className="row wrap">
        {only("who", row.principal)}
        {only("did", row.action)}
        {only("object", row.object)}
      </div>
    </div>
  );
}
