import "./tokens.css";
import "./styles/base.css";
import "./styles/frame.css";
import "./styles/parts.css";
import "./styles/pages.css";
import "./styles/widths.css";

import { RouterProvider } from "@tanstack/react-router";
import { createRoot } from "react-dom/client";

import { whenSignedOut } from "./data/request";
import { applyTheme } from "./frame/theme";
import { router } from "./router";

applyTheme();
whenSignedOut(() => void router.navigate({ to: "/sign-in", search: { to: router.state.location.href } }));
createRoot(document.getElementById("root") ?? document.body).render(<RouterProvider router={router} />);
