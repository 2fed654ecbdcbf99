/** A name that people choose: one line, the whole of it in its title. */
export function Name({ text, className = "" }: { text: string | null | undefined; className?: string }) {
  return text ? (
    <span className={`name ${className}`} title={text}>
      {text}
    </span>
  ) : null;
}
