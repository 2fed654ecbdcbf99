/** The line of a `details` whose state is the page's: what it hides is rendered only while it is open. */
import type { ReactNode } from "react";

import { Icon } from "./icon";

export function Opener({ toggle, children }: { toggle: () => void; children: ReactNode }) {
  return (
    <summary
      onClick={(event) => {
        event.preventDefault();
        toggle();
      }}
    >
      <Icon name="right" small className="tw" />
      {children}
    </summary>
  );
}
