"""Load statements from the files in `sql/`.

A line `-- include: NAME` stands for the text of another file, whose name begins with `_`.
"""

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, LiteralString, cast

_INCLUDE: Final = re.compile(r"^-- include: (\w+)$", re.MULTILINE)


@cache
def query(name: str) -> LiteralString:
    """Read the statement `sql/<name>.sql`.

    The cast is safe: the text is of files of this package, without parts from a caller.
    """
    folder = files("walagent.store").joinpath("sql")
    return cast(LiteralString, complete(folder.joinpath(f"{name}.sql").read_text("utf-8")))


def complete(text: str, *folders: Traversable) -> str:
    """Put in what a statement includes, from the first of *folders* and `sql/` that has it."""
    while found := _INCLUDE.search(text):
        places = [*folders, files("walagent.store").joinpath("sql")]
        parts = [place.joinpath(f"{found[1]}.sql") for place in places]
        part = next(each for each in parts if each.is_file()).read_text("utf-8").rstrip()
        text = f"{text[: found.start()]}{part}{text[found.end() :]}"
    return text
