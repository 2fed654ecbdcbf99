"""The files of `migrations/`, in the order in which they are applied.

State (tables, types, rows) is created once and changed by `upgrades/`; code (functions, views,
triggers, policies, comments, grants) is replaced whenever its text has changed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final

from walagent.errors import PreconditionError

# A kind is applied for all nouns before the next one.  A file of another name has functions.
_KINDS: Final = (
    "types", "expressions", "tables", "functions", "views", "data", "triggers", "policies",
    "comments", "grants",
)  # fmt: skip
_BODY: Final = re.compile(r"as \$\$(.*)\$\$;", re.DOTALL)
_STATE: Final = frozenset({"types", "tables", "data"})


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """One file: `schema/<noun>/<file>.sql` or `upgrades/<number>_<name>.sql`."""

    name: str
    script: bytes

    @property
    def kind(self) -> str:
        """What it defines, such as functions or policies."""
        stem = Path(self.name).stem
        return stem if stem in _KINDS else "functions"

    @property
    def is_state(self) -> bool:
        """Whether only a new database gets it; others get an upgrade."""
        return self.kind in _STATE

    @property
    def digest(self) -> str:
        """Return a digest that differs if the file has changed since it was applied."""
        return sha256(self.script).hexdigest()


@dataclass(frozen=True)
class SchemaFiles:
    """All files of one version, in order."""

    schema: Sequence[SchemaFile]
    upgrades: Sequence[SchemaFile]

    @cached_property
    def code(self) -> Sequence[SchemaFile]:
        """The files that are applied again when they change."""
        return [file for file in self.schema if not file.is_state]

    @property
    def recorded(self) -> Sequence[SchemaFile]:
        """The files whose digests a database stores."""
        return [*self.upgrades, *self.code]


def find_files() -> SchemaFiles:
    """Read the files of this installation.

    Raises:
        PreconditionError: it has none.
    """
    package = Path(__file__).parents[2]
    for folder in (package / "migrations", package.parents[1] / "migrations"):
        if (folder / "schema" / "order").exists():
            return SchemaFiles(
                tuple(_schema(folder)),
                tuple(_read(folder, path) for path in sorted(folder.glob("upgrades/*.sql"))),
            )
    raise PreconditionError(
        "the schema's files are missing from this installation", hint="Install walagent again."
    )


def function_body(name: str, **arguments: str) -> bytes:
    """Return the statement of a function in SQL, for databases that need not have the schema.

    Args:
        name: of the only function's file.
        arguments: what stands for each of its parameters.
    """
    text = _body(name)
    for parameter, value in arguments.items():
        text = re.sub(rf"\b{parameter}\b", value, text)
    return text.encode()


@cache
def _body(name: str) -> str:
    script = next(file.script for file in find_files().schema if file.name == name)
    found = _BODY.search(script.decode())
    assert found is not None  # noqa: S101 - it is a file of this package
    return found[1]


def _schema(folder: Path) -> Iterator[SchemaFile]:
    nouns = (folder / "schema" / "order").read_text("utf-8").split()
    files = [
        _read(folder, path)
        for noun in nouns
        for path in sorted((folder / "schema" / noun).glob("*.sql"))
    ]
    for kind in _KINDS:
        yield from (file for file in files if file.kind == kind)


def _read(folder: Path, path: Path) -> SchemaFile:
    return SchemaFile(str(path.relative_to(folder)), path.read_bytes())
