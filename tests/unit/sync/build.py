"""A table as shapes see it, with a column of each type that Python compares."""

from collections.abc import Mapping
from typing import Final

from walagent.domain.change import Value
from walagent.sync.table import ShapeColumn, ShapeTable

Row = Mapping[str, Value]
ITEM: Final = {"id": 23, "number": 20, "text": 25, "flag": 16}
NAMES: Final = {23: "int4", 20: "int8", 25: "text", 16: "bool", 2950: "uuid", 1700: "numeric"}


def column(
    name: str, oid: int, *, pk_index: int | None = None, is_enum: bool = False
) -> ShapeColumn:
    """A column."""
    kind = NAMES.get(oid, "state")
    return ShapeColumn(
        name, oid, kind, 0, pk_index is not None, pk_index, -1, is_enum,
        is_deterministic=True, sql_type=kind,
    )  # fmt: skip


def item_table(identity: str = "d") -> ShapeTable:
    """The table of the tests: its key is id."""
    columns = [
        column(name, oid, pk_index=0 if name == "id" else None) for name, oid in ITEM.items()
    ]
    return ShapeTable(7, "public", "item", columns, has_policies=False, identity=identity)
