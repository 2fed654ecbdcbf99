import { useEffect } from "react";

import { useSession } from "../data/session";

/** Name the page in the tab: what it is, then the database. */
export function useTitle(title: string): void {
  const database = useSession()?.database;
  useEffect(() => {
    document.title = [title, database, "walagent"].filter(Boolean).join(" · ");
  }, [title, database]);
}
