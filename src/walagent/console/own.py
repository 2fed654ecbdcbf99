"""The queries and mutations of the file: its named shapes read once, and statements of a role."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson
from psycopg import adapters
from psycopg.adapt import AdaptersMap
from psycopg.pq import Format
from psycopg.types.string import TextLoader

from walagent.console.declared import Declared
from walagent.domain.tenant import Actor
from walagent.http.exchange import RefusedError
from walagent.http.shares import Shares
from walagent.message import Json
from walagent.sync.checks import ShapeRefusedError
from walagent.sync.query import NamedQuery, QueryDefinition, Texts
from walagent.sync.query_shapes import QueryShapes
from walagent.sync.role_sessions import RoleSessions

# int8 and numeric as text: JavaScript's numbers hold neither.
AS_TEXT: Final = ("int8", "numeric", "pg_lsn", "uuid", "inet", "interval")


class Engine(Protocol):
    """What reads and writes."""

    queries: QueryShapes
    roles: RoleSessions


@dataclass(frozen=True, slots=True)
class Own:
    """What the file offers beside the console."""

    engine: Engine
    queries: Mapping[str, NamedQuery]
    # As many as there are connections for statements of roles, which shapes need, too.
    places: Shares = field(
        default_factory=lambda: Shares(
            "statements of roles", 3, of_tenant=2, of_principal=2, waiting=20
        )
    )

    async def read(
        self, name: str, given: Mapping[str, str], caller: Actor
    ) -> list[Mapping[str, Json]]:
        """Return the rows of a named query.

        Raises:
            RefusedError: a parameter is missing, or the caller may not read them.
        """
        query = self.queries[name]
        if missing := [each for each in query.parameters if each not in given]:
            raise RefusedError(400, f'query "{name}" needs the parameter "{missing[0]}"')
        values = {each: given[each] for each in query.parameters}
        check_texts(values)
        definition = QueryDefinition(query, tuple(values.values()), caller)
        try:
            async with self.places.in_turn(caller):
                found = await self.engine.queries.read(definition)
        except ShapeRefusedError as error:
            reasons = [text for texts in error.errors.values() for text in texts]
            raise RefusedError(error.status, "; ".join([str(error), *reasons])) from error
        values_of = _decoder(found.types)
        return [values_of(row) for row in found.rows.values()]

    async def write(
        self, declared: Declared, given: Mapping[str, Json], caller: Actor
    ) -> tuple[str, Json]:
        """Execute a statement as its role; return the ID of the transaction, and the first row.

        Raises:
            RefusedError: a parameter is missing, or it has written nothing.
            WalagentError: PostgreSQL refused it.
        """
        check_complete(declared.name, declared.parameters, given)
        values = {name: text_of(value) for name, value in given.items()}
        return await self.write_as(declared.run_as or "", declared.text, values, caller)

    async def write_as(
        self, role: str, text: str, values: Mapping[str, str | None], caller: Actor
    ) -> tuple[str, Json]:
        """Execute a statement as a role; return as `write`.

        Raises:
            RefusedError: it has written nothing.
            WalagentError: PostgreSQL refused it, or the role cannot be used.
        """
        check_texts(values)
        async with self.places.in_turn(caller):
            written = await self.engine.roles.write(role, caller, text, values)
        if not written.count:
            raise RefusedError(404, "it does not exist, or you may not see it")
        row = None if written.row is None else _decoder(written.types)(written.row)
        return written.txid, None if row is None else dict(row)


def _decoder(types: Mapping[str, int]) -> Any:  # noqa: ANN401 - a function
    """Return what makes values of JSON from the texts of a row."""
    known = AdaptersMap(adapters)  # a copy: the other is of all connections
    for name in AS_TEXT:
        known.register_loader(name, TextLoader)
    loaders = {
        name: (known.get_loader(oid, Format.TEXT) or TextLoader)(oid) for name, oid in types.items()
    }

    def decode(row: Texts) -> dict[str, Json]:
        return {
            name: None if text is None else loaders[name].load(text.encode())
            for name, text in row.items()
        }

    return decode


def text_of(value: Json) -> str | None:
    """Return a value as the text of a parameter."""
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def check_complete(name: str, parameters: Sequence[str], given: Mapping[str, Json]) -> None:
    """Refuse a mutation without one of its parameters: it could mean more than was meant.

    Raises:
        RefusedError: one is missing.
    """
    if missing := [each for each in parameters if each not in given]:
        text = f'mutation "{name}" needs the parameter "{missing[0]}"'
        raise RefusedError(400, text, hint="null is NULL.")


def check_texts(values: Mapping[str, str | None]) -> None:
    """Refuse what no text of PostgreSQL can hold.

    Raises:
        RefusedError: a value has such a character.
    """
    if any("\0" in (value or "") for value in values.values()):
        raise RefusedError(400, "a value has a NUL character, which PostgreSQL cannot store")
