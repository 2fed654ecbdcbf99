import { bytes } from "../data/format";
import { Exact } from "../data/exact";
import { visible } from "../data/visible";

/** A call as SQL would write it, with every argument in full. */
export function Call({
  tool,
  args,
  className,
  note,
}: {
  tool: string;
  args: Record<string, unknown> | null;
  className: string;
  note?: string;
}) {
  const given = Object.entries(args ?? {});
  return (
    <div className={className} tabIndex={0} role="group" aria-label="Call">
      {tool}(
      {given.map(([name, value], i) => (
        <span key={name}>
          {i > 0 && ", "}
          {visible(name)} =&gt; <Literal value={value} />
        </span>
      ))}
      ){note && <span className="cm"> -- {note}</span>}
    </div>
  );
}

/** Characters from which an argument is printed after short ones, and only once. */
export const LONG = 400;

interface ExactCallProps {
  tool: string;
  args: readonly { name: string; text: string; kind: string }[];
  className: string;
  /** Whether all arguments are in full below: long ones are only named here. */
  isListed?: boolean;
}

/** The same from texts, as the database wrote them. */
export function ExactCall({ tool, args, className, isListed = false }: ExactCallProps) {
  return (
    <div className={className} tabIndex={0} role="group" aria-label="Call">
      {tool}(
      {args.map((arg, i) => (
        <span key={arg.name}>
          {i > 0 && ", "}
          {visible(arg.name)} =&gt;{" "}
          {isListed && arg.text.length > LONG ? (
            <span className="cm">{bytes(arg.text.length)}, below</span>
          ) : (
            <Shown {...arg} />
          )}
        </span>
      ))}
      )
    </div>
  );
}

export function Shown({ text, kind }: { text: string; kind: string }) {
  if (kind === "null") return <span className="null-v">NULL</span>;
  if (kind === "number" || kind === "boolean") return <span className="nv">{text}</span>;
  return <span className="sv">'{visible(text.replaceAll("'", "''"))}'</span>;
}

export function Literal({ value }: { value: unknown }) {
  if (value === null || value === undefined) return <span className="null-v">NULL</span>;
  if (value instanceof Exact) return <span className="nv">{value.text}</span>;
  if (typeof value === "number" || typeof value === "boolean") return <span className="nv">{String(value)}</span>;
  if (typeof value === "string")
    return /^-?\d+(\.\d+)?$/.test(value) ? (
      <span className="nv">{value}</span>
    ) : (
      <span className="sv">'{visible(value.replaceAll("'", "''"))}'</span>
    );
  return <span className="sv">'{visible(JSON.stringify(value))}'</span>;
}
