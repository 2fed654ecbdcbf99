"""The tables of a database, and which of their columns an agent might write.  Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A check that lists values: `column = ANY (ARRAY['a'::text, …])`.
_LISTED = re.compile(r"\(\(?\"?([^\"()= ]+)\"?\)?(?:::\w+)? = ANY ")


@dataclass(frozen=True, slots=True)
class TableOption:
    """A table to choose.

    Args:
        name: as SQL writes it, without the schema `public`.
        rows: the planner's estimate; None: unknown.
        texts: columns without a value as yet (nullable, no key) that hold text.
        listed: those of them, or of another type, whose values are a list.
    """

    name: str
    rows: int | None
    columns: Sequence[str]
    texts: Sequence[str]
    listed: Sequence[str]

    def writable(self, *, plans: bool) -> Sequence[str]:
        """Return the columns to suggest.

        Args:
            plans: whether the model can also write free text.
        """
        return self.listed or (self.texts if plans else ())


def table_option(document: Mapping[str, Any]) -> TableOption:
    """Read a document of `store.schema.read_schema`."""
    name = document["quoted"] or f"{document['schema']}.{document['name']}"
    refers = {c for each in document["references"] or () for c in each["columns"]}
    taken = {*(document["key"] or ()), *refers}
    open_ = [c for c in document["columns"] or () if not c["not_null"] and c["name"] not in taken]
    checked = {m[1] for check in document["checks"] or () if (m := _LISTED.search(check))}
    return TableOption(
        name.removeprefix("public."),
        document["rows"],
        [c["name"] for c in document["columns"] or ()],
        [c["name"] for c in open_ if c["text"] and not c["values"]],
        [c["name"] for c in open_ if c["values"] or c["name"] in checked],
    )


def is_attachable(document: Mapping[str, Any]) -> bool:
    """Whether the WAL has its rows."""
    return document["kind"] in {"table", "partitioned table"}
