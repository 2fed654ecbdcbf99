"""Check the privileges of walagent's roles, and the attached tables."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from walagent.doctor.finding import Finding, ok, problem, warning
from walagent.errors import WalagentError
from walagent.postgres.quoting import quote_name, quote_text
from walagent.store.install.owners import FIX, describe
from walagent.store.install.server_facts import (
    AttachedTable,
    LoginFacts,
    ServerFacts,
    UnconfinedRole,
)

_NAMED = 3  # attachments in one line


def check_person(facts: ServerFacts, capabilities: Sequence[str]) -> Iterator[Finding]:
    """Say what a login can do that is not the daemon's: its rights cannot be checked with it."""
    yield replace(ok(f'database "{facts.database}" has walagent'), kind="server")
    said = ", ".join(capabilities)
    yield replace(ok(f'role "{facts.role}" has the rights of: {said}'), kind="role")
    rest = "what the daemon needs is checked with its own login: DATABASE_URL=… walagent doctor"
    yield replace(ok(rest), kind="daemon")


def check_privileges(facts: ServerFacts, missing: Sequence[str]) -> Iterator[Finding]:
    """Check the privileges of the daemon's role."""
    if missing:
        few = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")  # noqa: PLR2004
        yield problem(
            f'role "{facts.role}" lacks {few}',
            f"select agent.grant_runner({quote_text(facts.role)}); -- as the schema's owner",
        )
    elif facts.superuser:
        yield warning(
            f'role "{facts.role}" is a superuser',
            "create a separate role for the daemon: select agent.grant_runner('…')",
        )
    else:
        yield ok(f'role "{facts.role}" has the privileges to execute runs')


def check_isolation(roles: Iterable[UnconfinedRole]) -> Iterator[Finding]:
    """Check that row-level security applies to all who act in a tenant."""
    for found in roles:
        role, bypasses = quote_name(found.role), f"alter role {quote_name(found.role)} nobypassrls;"
        match found.used_by, found.reason:
            case "owner", _:
                yield problem(
                    f'role "{found.role}" owns the schema agent and has BYPASSRLS: functions with'
                    " its rights reach all tenants",
                    bypasses,
                )
            case "principal", reason:
                said = {"SUPERUSER": "is a superuser", "BYPASSRLS": "has BYPASSRLS"}
                can = said.get(reason, "can become the owner of the schema agent")
                yield problem(
                    f'login "{found.role}" of principal {found.principal} {can}:'
                    " it reaches all tenants",
                    bypasses
                    if reason == "BYPASSRLS"
                    else f"alter role {role} nosuperuser;"
                    if reason == "SUPERUSER"
                    else f"revoke the owner of the schema agent from {role}",
                )
            case "nobody", _:
                yield warning(
                    f'login "{found.role}" is nobody: its name is that of a {found.principal}'
                    " in tenant default",
                    f"select agent.create_principal('…', login => {quote_text(found.role)});",
                )
            case "later", tie:
                yield warning(
                    f'login "{found.role}" of principal {found.principal} is nobody: the role was'
                    " created after it became the principal's",
                    tie,
                )
            case _, "BYPASSRLS":
                yield warning(f'role "{found.role}" has BYPASSRLS', bypasses)
            case _:
                yield warning(
                    f'role "{found.role}" is, or can become, the owner of the schema agent',
                    "create a separate role for the daemon: select agent.grant_runner('…')",
                )


def check_members(troubles: Iterable[tuple[str, str, str]]) -> Iterator[Finding]:
    """Check that nobody else can act as the roles of walagent."""
    for role, trouble, statement in troubles:
        yield problem(f'role "{role}" of walagent: {trouble}', f"{statement};")


def check_login(
    name: str, login: LoginFacts, refused: WalagentError | None = None
) -> Iterator[Finding]:
    """Check the login on whose connections tools are executed: it must have no other right.

    Args:
        refused: why the server did not accept it.
    """
    quoted = quote_name(name)
    if not login.is_role:
        if login.may_create:
            yield ok("the login for tools is created when the daemon starts")
        else:
            yield problem(
                f'login "{name}", as which tools are executed, does not exist',
                "walagent init -- as a role with CREATEROLE; or set DATABASE_TOOLS_URL",
            )
        return
    findings = list[Finding]()
    if not login.may_log_in:
        findings.append(
            problem(
                f'role "{name}", as which tools are executed, cannot log in',
                f"alter role {quoted} login;",
            )
        )
    elif refused:
        findings.append(
            problem(
                f'cannot log in as "{name}", as which tools are executed: {refused}',
                "walagent init -- as a role that can set its password; or set DATABASE_TOOLS_URL",
            )
        )
    findings += [
        problem(
            f'login "{name}", as which tools are executed, has {attribute}',
            f"alter role {quoted} no{attribute.lower()};",
        )
        for attribute in login.attributes
    ]
    findings += [
        problem(
            f'login "{name}", as which tools are executed, is a member of "{role}"',
            f"revoke {quote_name(role)} from {quoted};",
        )
        for role in login.member_of
    ]
    findings += [
        problem(
            f'login "{name}", as which tools are executed, owns {owned}',
            f"reassign owned by {quoted} to current_user;",
        )
        for owned in login.owns[:1]
    ]
    yield from findings or [ok("the login for tools has no privileges")]


def check_tables(tables: Iterable[AttachedTable], role: str) -> Iterator[Finding]:
    """Check each attachment's table and roles."""
    found = list(tables)
    findings = [finding for table in found for finding in _check_table(table, role)]
    findings += _check_superusers(found)
    if found and not findings:
        yield ok(f"{len(found)} attachments have valid tables and roles")
    yield from dict.fromkeys(findings)  # once for two attachments of a table


def _check_superusers(tables: Iterable[AttachedTable]) -> Iterator[Finding]:
    """Report attachments that run as one superuser in one line."""
    names = dict[str, list[str]]()
    for table in tables:
        if table.role_exists and table.may_become and table.role_is_superuser:
            names.setdefault(table.run_as, []).append(table.attachment)
    for run_as, several in names.items():
        more = f" and {len(several) - _NAMED} more" if len(several) > _NAMED else ""
        word = "attachment" if len(several) == 1 else "attachments"
        run = "runs" if len(several) == 1 else "run"
        yield warning(
            f'{word} {", ".join(several[:_NAMED])}{more} {run} as superuser "{run_as}"',
            "attach with a run_as whose privileges are limited to what its tools need",
        )


def _check_table(table: AttachedTable, role: str) -> Iterator[Finding]:
    if not table.table_exists:
        yield problem(
            f"attachment {table.attachment}: {table.lost}",
            f"select agent.detach({quote_text(table.attachment)});"
            f" -- or set another table and resume it: {_other_table(table)}",
        )
        return
    if not table.owner_may_publish:
        yield problem(
            f'the publication\'s owner "{table.schema_owner}" cannot publish {table.relation}',
            f"grant {quote_name(table.owner or '')} to {quote_name(table.schema_owner)};",
        )
    if table.missing_old:
        yield warning(
            f"the condition of attachment {table.attachment} reads {', '.join(table.missing_old)}"
            f" from old, which is NULL: the replica identity of {table.relation} lacks it",
            f"alter table {table.relation} replica identity full;",
        )
    yield from _check_role(table, role)
    yield from _check_reading(table, role)
    resume = f"walagent agents resume {shlex.quote(table.attachment)}"
    if table.lost:
        yield problem(
            f"attachment {table.attachment} is broken: {table.lost}",
            f"{resume} -- accepts the table, or prints a fix",
        )
    elif table.paused and table.paused_reason:
        yield warning(
            f"attachment {table.attachment} is paused: {table.paused_reason}",
            f"{resume} -- once the reason is fixed",
        )


def _other_table(table: AttachedTable) -> str:
    name, relation = quote_text(table.attachment), quote_text(table.relation)
    return f"update agent.attachment set relation = {relation} where name = {name};"  # noqa: S608 - for an operator to read


def _check_role(table: AttachedTable, role: str) -> Iterator[Finding]:
    if not table.role_exists:
        yield problem(
            f'attachment {table.attachment} runs as role "{table.run_as}", which does not exist',
            f"create role {quote_name(table.run_as)}; -- or attach it with another run_as",
        )
    elif not table.may_become:
        yield problem(
            f'role "{role}" cannot set role "{table.run_as}", as which {table.attachment} runs',
            f"grant {quote_name(table.run_as)} to {quote_name(role)};",
        )
    elif table.reads_key and not table.role_is_superuser:
        yield warning(
            f'attachment {table.attachment} runs as "{table.run_as}", which can read'
            " agent_internal.secret, so that code of others could sign calls",
            "attach it with a run_as that owns nothing of walagent, is no runner and cannot read"
            " all data",
        )


def _check_reading(table: AttachedTable, role: str) -> Iterator[Finding]:
    """Check the role of the tool `query`."""
    if table.reads_as is None:
        return
    if not table.may_read_as:
        yield problem(
            f'role "{role}" cannot set role "{table.reads_as}", as which {table.attachment} reads',
            f"grant {quote_name(table.reads_as)} to {quote_name(role)};",
        )
    elif table.could_write:
        yield problem(
            f'attachment {table.attachment} reads as "{table.reads_as}", which is not read-only:'
            f" {table.could_write}",
            f"select fix from agent_internal.writing_rights({quote_text(table.reads_as)});",  # noqa: S608 - for an operator
        )


def check_owners(misowned: list[tuple[str, str, str]]) -> Iterator[Finding]:
    """Check that walagent's functions belong to the roles that keep tenants apart."""
    if misowned:
        yield problem(describe(misowned), FIX)
