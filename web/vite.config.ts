import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Relative addresses, since the server can mount the console at a prefix.  No inlined files: the
// policy of the page allows none.
export default defineConfig({
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../src/walagent/console/assets",
    emptyOutDir: true,
    rolldownOptions: { input: ["index.html", "burn/index.html"] }, // the console, and the example Burn
    assetsInlineLimit: 0,
    target: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: {
    proxy: { "/v1": { target: "http://127.0.0.1:8642", ws: true, changeOrigin: true } },
  },
});
