"""What identifies a shape: two requests with equal definitions share its log."""

from dataclasses import dataclass
from typing import Literal

from walagent.sync.expression import Node


@dataclass(frozen=True, slots=True)
class Definition:
    """A shape, as a request asks for it.

    Args:
        where: which rows; None: all.
        columns: which columns, in the order of the table; None: all.
        replica: `full`: updates and deletes have the whole row.
        changes_only: no rows of the snapshot are sent.
        principal: who it is for; "": anyone that may read the table.
    """

    schema: str
    table: str
    where: Node | None = None
    columns: tuple[str, ...] | None = None
    replica: Literal["default", "full"] = "default"
    changes_only: bool = False
    principal: str = ""
