"""Which code of users runs when tables are planned, read or written, and whose it is."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from psycopg import AsyncConnection

from walagent.store.install.files import function_body

Connection = AsyncConnection[Any]


class Moment(IntEnum):
    """When code runs; each includes those before it."""

    PLANNED = 0
    READ = 1
    WRITTEN = 2


@dataclass(frozen=True, slots=True)
class TableCode:
    """Code that a table brings.

    Args:
        relation: the table, view, partition or child that has it.
        place: for example an index or a policy of it.
        function: with its arguments; None: an expression, which is the owner's of the relation.
        owner: whose code it is.
        trusted: whether that is a superuser, or walagent.
        owns_relation: whether the owner of the code is the relation's.
    """

    relation: str
    moment: Moment
    place: str
    function: str | None
    owner: str
    trusted: bool
    owns_relation: bool

    def __str__(self) -> str:
        """For a person: what it is, whose, and where."""
        code = f"function {self.function}" if self.function else "an expression"
        return f"{code} of {self.owner} ({self.place} of {self.relation})"


async def code_of(
    conn: Connection, relations: Collection[int], until: Moment
) -> Sequence[TableCode]:
    """Return the code that runs until a moment, beginning with what is planned.

    Args:
        relations: OIDs; what they consist of or read is included.
    """
    if not relations:
        return ()
    body = function_body("schema/catalog/code_of.sql", _relations=_array(relations))
    rows = await (await conn.execute(body)).fetchall()
    found = [TableCode(relation, Moment[moment.upper()], *rest) for relation, moment, *rest in rows]
    return [each for each in found if each.moment <= until]


async def code_of_strangers(
    conn: Connection, relations: Collection[int], until: Moment
) -> Sequence[TableCode]:
    """Return that of roles which own neither the relation nor walagent and are no superusers.

    Where all functions belong to the owners of the relations nothing is found, which is known
    without following anything.
    """
    body = function_body("schema/catalog/strangers.sql", _relations=_array(relations))
    if await (await conn.execute(body)).fetchone() != (True,):
        return ()
    all_code = await code_of(conn, relations, until)
    return [each for each in all_code if not (each.trusted or each.owns_relation)]


def _array(relations: Collection[int]) -> str:
    return f"array[{','.join(map(str, relations))}]::oid[]"
