"""Check an installation, and report each problem with its fix.

Changes nothing; each check is a function from facts to findings.
"""

import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import starmap
from typing import Any

from psycopg import AsyncConnection, Error
from psycopg.conninfo import conninfo_to_dict

from walagent.config import Config
from walagent.config.dsn import Places
from walagent.config.environment import Environment
from walagent.doctor.analyst import check_analyst, check_standby_of_questions
from walagent.doctor.budgets import check_budgets
from walagent.doctor.caching import check_caching
from walagent.doctor.changes import check_changes
from walagent.doctor.code import check_code
from walagent.doctor.finding import Finding, Severity, of_kind, ok, problem, warning
from walagent.doctor.models import build_models, check_models, probe_models
from walagent.doctor.replication import (
    KEEPING,
    check_gaps,
    check_keepers,
    check_publications,
    check_reader,
    check_slot,
    check_standby,
)
from walagent.doctor.roles import (
    check_isolation,
    check_login,
    check_members,
    check_owners,
    check_person,
    check_privileges,
    check_tables,
)
from walagent.doctor.server import check_server
from walagent.errors import PreconditionError, WalagentError
from walagent.models.model import Model
from walagent.replication.bootstrap import PUBLICATIONS
from walagent.store import attachments, budgets, gaps
from walagent.store import checkpoint as checkpoints
from walagent.store.errors import MIGRATE, translated
from walagent.store.install import server_facts
from walagent.store.install.identity import check_database
from walagent.store.install.migrate import plan_migration
from walagent.store.install.owners import misowned_functions
from walagent.store.install.pooling import check_pooling
from walagent.store.people import listings
from walagent.store.people.privileges import capabilities_of
from walagent.store.sessions.tool_connections import read_login, try_login
from walagent.wal.publications import missing_publications, published_tables
from walagent.wal.slots import SystemIdentity, identify_system, inspect_slot
from walagent.workers.host_rules import missing_for_tools

__all__ = ["Finding", "Severity", "examine"]

Connection = AsyncConnection[Any]


async def examine(
    conn: Connection, places: Places, config: Config, *, probe: bool = False
) -> AsyncIterator[Finding]:
    """Check everything that a run depends on.

    Args:
        probe: also request one tool call from each model in use, at a cost of a few hundred tokens.
    """
    facts = await server_facts.read_server(conn)
    lacking = await server_facts.missing_privileges(conn) if facts.migrated else []
    readable = facts.migrated and not lacking
    if lacking and (capabilities := await capabilities_of(conn)) and "runner" not in capabilities:
        for finding in check_person(facts, capabilities):
            yield finding
        return
    for finding in await _examine_server(conn, facts, places, config, readable=readable):
        yield finding
    if not readable:
        found = check_privileges(facts, lacking) if facts.migrated else [await _migrations(conn)]
        for finding in of_kind("schema", found):
            yield finding
        return
    for finding in await _examine_schema(conn, facts, places, config):
        yield finding
    async for finding in _examine_models(conn, probe=probe):
        yield finding


async def _examine_models(conn: Connection, *, probe: bool) -> AsyncIterator[Finding]:
    models = await _models(conn)
    for finding in of_kind("models", check_models(models)):
        yield finding
    if probe:
        async for finding in probe_models(models):
            yield replace(finding, kind="models")
    for model in models.values():
        if not isinstance(model, WalagentError):
            await model.aclose()


async def _examine_server(
    conn: Connection,
    facts: server_facts.ServerFacts,
    places: Places,
    config: Config,
    *,
    readable: bool,
) -> list[Finding]:
    skew = facts.clock - time.time()
    name = config.replication.slot
    slot = await inspect_slot(conn, name)
    checkpoint = await checkpoints.read_checkpoint(conn, name) if readable else None
    return [
        *of_kind("server", check_server(facts, config, slot, skew)),
        *of_kind("server", await _pooling(conn, places)),
        *of_kind(
            "reader",
            check_reader(
                await _identity(places),
                facts.database,
                checkpoint,
                str(conninfo_to_dict(places.replication_dsn).get("user") or facts.role),
            ),
        ),
        *of_kind(
            "slot",
            check_standby(name, slot)
            if facts.in_recovery
            else check_slot(config, facts.database, slot, checkpoint, facts.standby_slots),
        ),
        *of_kind("wal", check_keepers(await server_facts.wal_keepers(conn, KEEPING), slot)),
    ]


async def _examine_schema(
    conn: Connection, facts: server_facts.ServerFacts, places: Places, config: Config
) -> list[Finding]:
    missing = await missing_publications(conn, PUBLICATIONS)
    published = await published_tables(conn, PUBLICATIONS[0])
    trouble = await gaps.publication_trouble(conn)
    tables = await server_facts.attached_tables(conn)
    registered = await attachments.agents(conn), await attachments.load_models(conn)
    kinds: dict[str, Iterable[Finding]] = {
        "schema": [await _migrations(conn), await _database(conn)],
        "role": [
            *check_privileges(facts, ()),
            *check_isolation(await server_facts.unconfined_roles(conn)),
            *check_owners(await misowned_functions(conn)),
            *check_members(await _role_troubles(conn, places, config)),
        ],
        "tools": [
            *await _login(conn, places),
            *starmap(warning, missing_for_tools(config, Environment.of_process())),
        ],
        "attachments": check_tables(tables, facts.role),
        "code": await check_code(conn, tables, config),
        "changes": await check_changes(conn, tables),
        "publications": check_publications(missing, published, trouble),
        "gaps": check_gaps(await listings.list_gaps(conn)),
        "budgets": await _budgets(conn),
        "caching": check_caching(*registered),
        "questions": [finding async for finding in check_analyst(conn, config.ask)],
        "standby": [await check_standby_of_questions(places, config.ask)]
        if config.ask.standby_dsn is not None
        else [],
    }
    return [each for kind, found in kinds.items() for each in of_kind(kind, found)]


async def _role_troubles(
    conn: Connection, places: Places, config: Config
) -> list[tuple[str, str, str]]:
    logins = [conninfo_to_dict(dsn).get("user") for dsn in (places.tools_dsn, places.rows_dsn)]
    named = [config.ask.role, *(str(login) for login in logins if login)]
    return await server_facts.role_troubles(conn, named)


async def _budgets(conn: Connection) -> Iterator[Finding]:
    return check_budgets(
        await budgets.standings(conn),
        await budgets.unpriced(conn),
        await budgets.orphaned_budgets(conn),
    )


async def _identity(places: Places) -> SystemIdentity | WalagentError:
    try:
        return await identify_system(places.replication_dsn)
    except WalagentError as error:
        return error


async def _migrations(conn: Connection) -> Finding:
    try:
        due = await plan_migration(conn)
    except PreconditionError as error:
        return problem(str(error), error.hint)
    except Error as error:
        return problem(str(translated(error)))
    if due.is_new:
        return problem('schema "agent" does not exist', "walagent init")
    if due:
        return problem(due.text, MIGRATE)
    return ok("the schema is up to date")


async def _pooling(conn: Connection, places: Places) -> list[Finding]:
    try:
        await check_pooling(conn, places.dsn)
    except WalagentError as error:
        return [problem(str(error), error.hint)]
    return []


async def _database(conn: Connection) -> Finding:
    try:
        await check_database(conn)
    except Error as error:
        refusal = translated(error)
        return problem(str(refusal), refusal.hint)
    return ok("the database is not a copy")


async def _login(conn: Connection, places: Places) -> Iterator[Finding]:
    try:
        login = await read_login(conn)
    except PreconditionError as error:
        return iter([problem(str(error), error.hint)])
    name = login.user(places.tools_dsn)
    facts = await server_facts.read_tools_login(conn, name)
    refused = None
    if facts.may_log_in:
        try:
            await try_login(login.dsn(places.dsn, places.tools_dsn))
        except WalagentError as error:
            refused = error
    return check_login(name, facts, refused)


async def _models(conn: Connection) -> Mapping[str, Model | WalagentError]:
    registry = await attachments.load_registry(conn)
    return dict(build_models(await server_facts.models_in_use(conn), registry))
