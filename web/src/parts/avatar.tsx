/** The initial of a name: a person is round, an agent square. */
interface InitialProps {
  name: string;
  isAgent: boolean;
  title?: string | undefined;
  small?: boolean;
}

export function Initial({ name, isAgent, title, small = false }: InitialProps) {
  return (
    <span className={`av${isAgent ? " agent" : ""}${small ? " small" : ""}`} title={title} aria-hidden="true">
      {name.slice(0, 1).toUpperCase()}
    </span>
  );
}
