r"""Read PostgreSQL's text of a record, such as `(1,"a, b",)`."""

import re
from typing import Final

# A quoted value, in which quotes and backslashes are doubled; or one without quotes, empty if NULL.
_VALUE: Final = re.compile(r'(?:"((?:[^"\\]|""|\\.)*)"|([^",]*))(?:,|$)', re.DOTALL)
_DOUBLED: Final = re.compile(r'""|\\(.)', re.DOTALL)


def read_record(text: str) -> list[str | None]:
    """Return the values of a record as texts.

    Raises:
        ValueError: it is not the text of a record.
    """
    if not (text.startswith("(") and text.endswith(")")):
        raise ValueError("not a record")
    inside, at, values = text[1:-1], 0, list[str | None]()
    while at <= len(inside):
        found = _VALUE.match(inside, at)
        if found is None:
            raise ValueError("not a record")
        quoted, plain = found.groups()
        values.append(_unquoted(quoted) if quoted is not None else plain or None)
        if not found[0].endswith(",") or found.end() > len(inside):
            break
        at = found.end()
    return values


def _unquoted(text: str) -> str:
    return _DOUBLED.sub(lambda found: found[1] or '"', text)
