/** People, their roles and tokens; and changes of roles that are not saved yet. */
export const ROLES = ["viewer", "approver", "developer", "auditor", "admin"] as const;
export type Role = (typeof ROLES)[number] | "agent";

/** What a role allows, after a name. */
export const MEANINGS: Readonly<Record<Role, string>> = {
  viewer: "reads all runs, their steps and approvals",
  approver: "decides approvals, and retries, cancels and resolves runs",
  developer: "changes agents, attachments, personas and policies",
  auditor: "reads the audit",
  admin: "does all of the others, and changes people, roles and tokens",
  agent: "takes part as an agent",
};

/** `access_people`: principals, people first. */
export interface Principal {
  name: string;
  kind: "user" | "service" | "agent";
  display_name: string;
  email: string | null;
  active: boolean;
  login: string | null;
  /** Login of the operator that has made a link for it. */
  links_of: string | null;
  created_at: string;
  is_me: boolean;
  /** Each role that it has now, and when it ends. */
  roles: Partial<Record<Role, string | null>>;
  /** How many tokens and sessions can be used, of those that are seen. */
  tokens: string;
  is_last_admin: boolean;
}

/** `access_tokens`: those that can be used first. */
export interface Token {
  id: string;
  principal: string;
  label: string;
  purpose: "token" | "link" | "session";
  /** Empty: all that its principal may do. */
  scopes: string[];
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  state: "valid" | "expired" | "revoked";
}

export const SCOPES = {
  read: "read rows",
  post: "write in threads, ask questions",
  approve: "decide approvals, act on runs",
  develop: "change agents and tools",
  admin: "change people, roles and tokens",
} as const;

/** Days until a role or a token ends. */
export const ENDS = { "": "never", "1": "in 1 day", "7": "in 7 days", "30": "in 30 days", "90": "in 90 days" } as const;

export interface Change {
  principal: string;
  role: Role;
  granted: boolean;
}

/** The draft with one box changed, or changed back. */
export function toggled(draft: readonly Change[], of: Pick<Principal, "name" | "roles">, role: Role): Change[] {
  const others = draft.filter((each) => each.principal !== of.name || each.role !== role);
  return others.length < draft.length
    ? others
    : [...draft, { principal: of.name, role, granted: of.roles[role] === undefined }];
}

/** Whether a box is ticked in the draft. */
export function isTicked(draft: readonly Change[], of: Pick<Principal, "name" | "roles">, role: Role): boolean {
  const change = draft.find((each) => each.principal === of.name && each.role === role);
  return change ? change.granted : of.roles[role] !== undefined;
}

/** What a change means, as a sentence. */
export function meaning({ principal, role, granted }: Change): string {
  return granted ? `${principal} becomes ${role}: ${MEANINGS[role]}` : `${principal} is no longer ${role}`;
}

/** The draft as the mutation takes it. */
export function sent(draft: readonly Change[]): string {
  return JSON.stringify(draft.map(({ principal, role, granted }) => [principal, role, granted]));
}

const MOST = 63; // bytes of a name, which PostgreSQL cuts

/** What is wrong with a name that is typed; undefined: nothing. */
export function wrongName(name: string, known: readonly Pick<Principal, "name">[]): string | undefined {
  const bytes = new TextEncoder().encode(name).length;
  if (bytes > MOST) return `A name has at most ${MOST} bytes, this one has ${bytes}.`;
  // eslint-disable-next-line no-control-regex -- what the database refuses
  if (/[\u0000-\u001f\u007f]/.test(name)) return "A name has no control characters.";
  return known.some((each) => each.name === name) ? "Somebody has this name." : undefined;
}

/** Rows of which a text has all words that are typed. */
export function found<T>(rows: readonly T[], q: string, of: (row: T) => string): T[] {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => words.every((word) => of(row).toLowerCase().includes(word)));
}

export const textOf = (row: Principal) =>
  [row.name, row.display_name, row.email, row.login, ...Object.keys(row.roles)].filter(Boolean).join(" ");
