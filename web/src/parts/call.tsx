/** A call as SQL would write it, with every argument in full. */
export function Call({ tool, args, className }: { tool: string; args: Record<string, unknown> | null; className: string }) {
  const given = Object.entries(args ?? {});
  return (
    <div className={className} tabIndex={0} role="group" aria-label="Call">
      {tool}(
      {given.map(([name, value], i) => (
        <span key={name}>
          {i > 0 && ", "}
          {name} =&gt; <Literal value={value} />
        </span>
      ))}
      )
    </div>
  );
}

export function Literal({ value }: { value: unknown }) {
  if (value === null || value === undefined) return <span className="null-v">NULL</span>;
  if (typeof value === "number" || typeof value === "boolean") return <span className="nv">{String(value)}</span>;
  if (typeof value === "string") return /^-?\d+(\.\d+)?$/.test(value) ? <span className="nv">{value}</span> : <span className="sv">'{value.replaceAll("'", "''")}'</span>;
  return <span className="sv">'{JSON.stringify(value)}'</span>;
}
