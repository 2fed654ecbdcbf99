"""The queries and mutations of the console: one SQL file each, named like the file.

A file begins with comments: `-- key:` names the columns that tell rows apart, `-- parameters:` the
values of a request, `-- role:` the role that a principal needs.  `-- as: login` executes a mutation
as the login of the principal, where what the login may do counts.  A file can include others, as
those of `store.queries`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from walagent.store.queries import complete

PREFIX: Final = "console."
_HEAD: Final = re.compile(r"-- (key|parameters|role|as): (.+)\n")
_COMMENT: Final = re.compile(r"^ *--[^\n]*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Declared:
    """A statement that the server offers.

    Args:
        text: with a placeholder `%(name)s` for each parameter.
        key: the columns that tell rows of a query apart; none for a mutation.
        role: what the principal must have, such as `approver`; None: any.
        function: of schema `agent`, which is called instead of *text*; None: none.
        run_as: the role that executes *text*, a statement of the file; None: walagent itself.
        as_login: whether the login of the principal executes *text*.
    """

    name: str
    text: str
    key: tuple[str, ...]
    parameters: tuple[str, ...]
    role: str | None = None
    function: str | None = None
    run_as: str | None = None
    as_login: bool = False


@cache
def declared_queries() -> tuple[Declared, ...]:
    """Return the queries, which are served as shapes and read once."""
    return tuple(_read("queries"))


@cache
def declared_mutations() -> tuple[Declared, ...]:
    """Return the mutations: statements that write, each in a transaction of its own."""
    return tuple(_read("mutations"))


def _read(folder: str) -> Iterator[Declared]:
    package = files("walagent.console")
    for file in sorted(package.joinpath(folder).iterdir(), key=lambda each: each.name):
        name, _, kind = file.name.partition(".")
        if kind == "sql" and not name.startswith("_"):
            yield _declared(PREFIX + name, file.read_text("utf-8"), package.joinpath("queries"))


def _declared(name: str, text: str, parts: Traversable) -> Declared:
    head = dict[str, tuple[str, ...]]()
    while found := _HEAD.match(text):
        head[found[1]] = tuple(each.strip() for each in found[2].split(","))
        text = text[found.end() :]
    plain = _COMMENT.sub("", complete(text, parts)).strip()
    role = next(iter(head.get("role", ())), None)
    as_login = head.get("as") == ("login",)
    key, parameters = head.get("key", ()), head.get("parameters", ())
    return Declared(name, plain, key, parameters, role, as_login=as_login)
