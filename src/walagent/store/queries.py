"""Load statements from the files in `sql/`."""

from functools import cache
from importlib.resources import files
from typing import LiteralString, cast


@cache
def query(name: str) -> LiteralString:
    """Read the statement `sql/<name>.sql`.

    The cast is safe: the text is a file of this package, without parts from a caller.
    """
    return cast(
        LiteralString, files("walagent.store").joinpath("sql", f"{name}.sql").read_text("utf-8")
    )
