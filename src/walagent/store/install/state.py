"""What a database has of walagent, beside the list of files that were applied."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.store.install.files import SchemaFiles
from walagent.store.queries import query

_TABLE: Final = re.compile(rb"^create (?:unlogged )?table ([\w.]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SchemaState:
    """What is there.

    Args:
        is_ours: whether the schema `agent` is walagent's.
        left: schemas and publications of walagent that exist.
        missing: tables that do not exist.
        dropped_code: whether a function or view was dropped.
    """

    is_ours: bool
    left: Sequence[str]
    missing: Sequence[str]
    dropped_code: bool

    @property
    def is_empty(self) -> bool:
        """Whether nothing of walagent exists; its empty schema `agent` can have been prepared."""
        return not [name for name in self.left if name != "schema agent"]


async def read_state(conn: AsyncConnection[Any], files: SchemaFiles) -> SchemaState:
    """Compare the catalog with what the files create."""
    tables = [name.decode() for file in files.schema for name in _TABLE.findall(file.script)]
    cursor = await conn.execute(query("schema_state"), {"tables": tables})
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - a select without from returns one row
    is_ours, left, missing, has_list = row
    dropped = False
    if has_list:
        found = await conn.execute(query("dropped_code"))
        dropped = await found.fetchone() is not None
    return SchemaState(is_ours, left, missing, dropped)
