"""The text of a row whose embedding is asked for.  Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from walagent.errors import ModelRejectedError


def row_text(change: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Join the values of columns by line breaks; NULL is left out.

    A value that an UPDATE left as it was is that of the old row.

    Raises:
        ModelRejectedError: the change does not have one of the columns.
    """
    row: Mapping[str, Any] = {**(change.get("old") or {}), **(change.get("new") or {})}
    for name in columns:
        if name not in row:
            raise ModelRejectedError(
                f'the change does not have the value of column "{name}"',
                hint="The replica identity was not full, or the row was of another tenant before."
                " Change one of the columns: the run of that change embeds the row.",
            )
    return "\n".join(_text(row[name]) for name in columns if row[name] is not None)


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
