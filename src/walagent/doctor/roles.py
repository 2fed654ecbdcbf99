"""May our roles do what they must, and are the attached tables fit to be followed?"""

from collections.abc import Iterable, Iterator, Sequence

from psycopg import sql

from walagent.doctor.finding import Finding, ok, problem, warning
from walagent.store.server import AttachedTable, ServerFacts


def check_privileges(facts: ServerFacts, missing: Sequence[str]) -> Iterator[Finding]:
    """Evaluator what the daemon's role may do in our schema."""
    if missing:
        few = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")  # noqa: PLR2004
        yield problem(
            f'role "{facts.role}" lacks {few}',
            f"select agent.grant_runner({_literal(facts.role)}); -- as the schema's owner",
        )
    elif facts.superuser:
        yield warning(
            f'role "{facts.role}" is a superuser',
            "let the daemon have a role of its own: select agent.grant_runner('…')",
        )
    else:
        yield ok(f'role "{facts.role}" may work runs')


def check_tables(tables: Iterable[AttachedTable], role: str) -> Iterator[Finding]:
    """Evaluator each attachment's table and role."""
    found = list(tables)
    findings = [finding for table in found for finding in _check_table(table, role)]
    if found and not findings:
        yield ok(f"{len(found)} attachments: their tables and roles are in order")
    yield from dict.fromkeys(findings)  # two attachments of a table say it once


def _check_table(table: AttachedTable, role: str) -> Iterator[Finding]:
    if not table.table_exists:
        yield problem(
            f"attachment {table.attachment}: {table.lost}",
            f"select agent.detach({_literal(table.attachment)});"
            f" -- or give it another one and resume it: {_other_table(table)}",
        )
        return
    if not table.owner_may_publish:
        yield problem(
            f'"{table.schema_owner}", who owns the publication, may not publish {table.relation}',
            f"grant {_name(table.owner or '')} to {_name(table.schema_owner)};",
        )
    yield from _check_role(table, role)
    yield from _check_reading(table, role)
    if table.lost:
        yield problem(
            f"attachment {table.attachment} cannot go on as it was defined: {table.lost}",
            f"walagent resume {table.attachment} -- takes the table as it is, or says what to mend",
        )
    elif table.paused and table.paused_reason:
        yield warning(
            f"attachment {table.attachment} is paused: {table.paused_reason}",
            f"walagent resume {table.attachment} -- once the reason is gone",
        )


def _other_table(table: AttachedTable) -> str:
    name, relation = _literal(table.attachment), _literal(table.relation)
    return f"update agent.attachment set relation = {relation} where name = {name};"  # noqa: S608 - for a person to read


def _check_role(table: AttachedTable, role: str) -> Iterator[Finding]:
    if not table.role_exists:
        yield problem(
            f'attachment {table.attachment} runs as "{table.run_as}", which does not exist',
            f"create role {_name(table.run_as)}; -- or attach it with another run_as",
        )
    elif not table.may_become:
        yield problem(
            f'role "{role}" may not become "{table.run_as}", which {table.attachment} runs as',
            f"grant {_name(table.run_as)} to {_name(role)};",
        )
    elif table.role_is_superuser:
        yield warning(
            f'attachment {table.attachment} runs as the superuser "{table.run_as}"',
            "attach it with run_as naming a role that may do only what its tools need",
        )


def _check_reading(table: AttachedTable, role: str) -> Iterator[Finding]:
    """Look at the role of the tool `query`."""
    if table.reads_as is None:
        return
    if not table.may_read_as:
        yield problem(
            f'role "{role}" may not become "{table.reads_as}", which {table.attachment} reads as',
            f"grant {_name(table.reads_as)} to {_name(role)};",
        )
    elif table.could_write:
        yield problem(
            f'attachment {table.attachment} reads as "{table.reads_as}", which could do more:'
            f" {table.could_write}",
            f"select mend from agent_internal.writing_rights({_literal(table.reads_as)});",  # noqa: S608 - for a person to read
        )


def _name(name: str) -> str:
    return sql.Identifier(name).as_string()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
