/** Where a link leads, for parts that are given one. */
import type { LinkProps } from "@tanstack/react-router";

export type Address = Pick<LinkProps, "to" | "params" | "search">;

/** The address of a page without parameters in its path. */
export type Path = Exclude<NonNullable<LinkProps["to"]>, `${string}$${string}` | "." | "..">;
