import "./tokens.css";
import "./styles/base.css";
import "./styles/frame.css";
import "./styles/parts.css";
import "./styles/pages.css";
import "./styles/widths.css";

import { RouterProvider } from "@tanstack/react-router";
import { createRoot } from "react-dom/client";

import { returnByBack } from "./data/back";
import { landing } from "./data/landing";
import { whenSignedOut } from "./data/request";
import { applyTheme } from "./frame/theme";
import { loadPages, router } from "./router";

applyTheme();
returnByBack((moved) => router.history.subscribe(moved));
whenSignedOut(() => {
  const { pathname, href } = router.state.location;
  if (pathname !== "/sign-in") void router.navigate({ to: "/sign-in", search: { to: landing(href), ended: "1" } });
});
addEventListener("load", loadPages);
createRoot(document.getElementById("root") ?? document.body).render(<RouterProvider router={router} />);
