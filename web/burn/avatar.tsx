/** A person is round, an agent square; a picture if there is one that loads. */
import { useState } from "react";

import { Initial } from "../src/parts/avatar";
import type { User } from "./data";

interface AvatarProps {
  user: Pick<User, "name" | "type" | "avatar_url">;
  title?: string;
  small?: boolean;
}

export function Avatar({ user, title, small = false }: AvatarProps) {
  const [failed, setFailed] = useState<string | null>(null);
  const look = `av${user.type === "agent" ? " agent" : ""}${small ? " small" : ""}`;
  if (user.avatar_url && failed !== user.avatar_url)
    return (
      <img
        className={look}
        src={user.avatar_url}
        alt=""
        title={title}
        referrerPolicy="no-referrer"
        onError={() => setFailed(user.avatar_url)}
      />
    );
  return <Initial name={user.name} isAgent={user.type === "agent"} title={title} small={small} />;
}
