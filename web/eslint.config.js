import js from "@eslint/js";
import a11y from "eslint-plugin-jsx-a11y";
import hooks from "eslint-plugin-react-hooks";
import { defineConfig } from "eslint/config";
import ts from "typescript-eslint";

export default defineConfig(
  js.configs.recommended,
  {
    files: ["packages/**/*.js"],
    languageOptions: {
      globals: {
        Headers: "readonly",
        Request: "readonly",
        Response: "readonly",
        URL: "readonly",
        WebSocket: "readonly",
        clearTimeout: "readonly",
        setTimeout: "readonly",
      },
    },
  },
  {
    files: ["**/*.{ts,tsx}"],
    extends: [
      ts.configs.strictTypeChecked,
      ts.configs.stylisticTypeChecked,
      hooks.configs.flat["recommended-latest"],
      a11y.flatConfigs.recommended,
    ],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      // Addresses are checked by the types of the router; a cast would end that.
      "no-restricted-syntax": ["error", { selector: "TSAsExpression > TSNeverKeyword", message: "A cast to never." }],
      // `key: () => open(row)` says all that there is to say.
      "@typescript-eslint/no-confusing-void-expression": "off",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // An empty text, and false, are no value either.
      "@typescript-eslint/prefer-nullish-coalescing": ["error", { ignorePrimitives: true }],
      // The router's redirect is thrown.
      "@typescript-eslint/only-throw-error": [
        "error",
        { allow: [{ from: "package", package: "@tanstack/router-core", name: "Redirect" }] },
      ],
      // An asynchronous handler shows its own errors.
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
      // A list that is read again says so; a draft that nobody has touched follows a new version.
      "react-hooks/set-state-in-effect": "off",
      "jsx-a11y/label-has-associated-control": ["error", { depth: 4 }],
      // A dialog that is opened by a key takes the focus; a field at the top of a page does not.
      "jsx-a11y/no-autofocus": "off",
      // What scrolls must have the focus to be scrolled by keys (axe: scrollable-region-focusable).
      "jsx-a11y/no-noninteractive-tabindex": "off",
    },
  },
);
