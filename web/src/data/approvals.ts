/** The rows of the page approvals, as `console.NAME` gives them. */
import { useMemo } from "react";

import { usePages } from "./pages";
import { type Params, useQueryOnce } from "./queries";
import { useShape } from "./shapes";

/** `approvals`: live, pending ones of all, oldest first. `approval_history`: decided ones; parameters: tool, before, limit. */
export interface ApprovalRow {
  id: string;
  run_id: string;
  agent: string | null;
  tool: string;
  /** Of the arguments, with bound ones first, as text. */
  values: string | null;
  /** Each argument as text, cut: what lists show, sort and filter by. */
  brief: Record<string, string>;
  arguments: Record<string, unknown>;
  edited: Record<string, unknown> | null;
  digest: string;
  run_as: string;
  state: "pending" | "approved" | "rejected" | "expired" | "cancelled";
  risk: string | null;
  requested_by: string[];
  four_eyes: boolean;
  relation: string | null;
  key: string | null;
  title: string | null;
  thread: string | null;
  asked_at: string;
  expires_at: string;
  decided_by: string | null;
  decided_at: string | null;
  reason: string | null;
}

export interface ShownArgument {
  name: string;
  text: string;
  kind: string;
  /** The column of the row that it is bound to. */
  bound: string | null;
}

/** `approval`: what a decision needs besides; parameter: id. */
export interface ApprovalDetail extends ApprovalRow {
  /** Argument by name: the column of the row that it is bound to. */
  bound: Record<string, string>;
  /** Every argument as text, bound ones first. */
  shown: ShownArgument[];
  arguments_text: string;
  types: Record<string, string> | null;
  content: Record<string, unknown> | null;
  effect: string | null;
  function: string | null;
  said: string | null;
  can_decide: boolean;
  /** Whether it is a question of an agent (ask_human). */
  is_question: boolean;
}

const idOf = (row: { id: string }) => row.id;

export const useApprovals = () => {
  const live = useShape<ApprovalRow>("approvals", idOf);
  return { ...live, rows: useMemo(() => [...live.rows].sort((a, b) => Number(a.id) - Number(b.id)), [live.rows]) };
};
export const useApproval = (id: string) => useQueryOnce<ApprovalDetail>("approval", { id }, { skip: !id });
/** What decisions about several calls bind; at most 100. */
export const useApprovalsRead = (ids: readonly string[]) =>
  useQueryOnce<ApprovalDetail>("approvals_read", { ids: ids.join() }, { skip: ids.length === 0 });
export const useApprovalHistory = (params: Params, skip = false) =>
  useQueryOnce<ApprovalRow>(
    "approval_history",
    { tool: "", decided_by: "", before: "", limit: 50, ...params },
    { skip },
  );
/** Decided calls in pages: of one person, or of all. */
export const useDecided = (by = "", skip = false) =>
  usePages<ApprovalRow>("approval_history", { tool: "", decided_by: by }, { limit: 100, before: idOf, skip });
