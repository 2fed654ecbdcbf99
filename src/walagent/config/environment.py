"""Read settings and secrets from environment variables, `.env` and systemd credentials.

For the configuration; `models.credentials` reads the API keys of models.
"""

import codecs
import os
import re
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from dotenv.parser import Binding, parse_stream

from walagent.errors import ConfigError

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as PowerShell writes files


@dataclass(frozen=True, slots=True)
class Environment:
    """Named values of systemd's credentials directory, else of the environment."""

    variables: Mapping[str, str] = field(repr=False)
    credentials: Path | None = None

    @classmethod
    def of_process(cls) -> "Environment":
        """Return the environment of this process."""
        folder = os.environ.get("CREDENTIALS_DIRECTORY")
        return cls(os.environ, Path(folder) if folder else None)

    def find(self, name: str) -> str | None:
        """Return the value of *name*; None if it is not set, or empty.

        Raises:
            ConfigError: the file of a credential cannot be read.
        """
        path = self.credentials and self.credentials / name
        if path is None or not path.is_file():
            return self.variables.get(name) or None
        try:
            return path.read_text("utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            raise ConfigError(f'cannot read credential file "{name}"') from None


def load_env_file(
    path: Path,
    environ: MutableMapping[str, str],
    ours: Collection[str] = (),
    *,
    warn: Callable[[str], None] = lambda _: None,
) -> frozenset[str]:
    """Set the variables of *path* in *environ*; variables that are already set take precedence.

    Does nothing if the file does not exist.  libpq and the SDKs of models read their variables from
    the environment of the process.

    Args:
        ours: the names that an earlier call has set.
        warn: called with each line that is ignored.

    Returns:
        the names that the file sets.

    Raises:
        ConfigError: the file is unreadable.
    """
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-16" if raw.startswith(_UTF16) else "utf-8-sig")
    except FileNotFoundError:
        return frozenset(ours)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f'cannot read "{path}": {type(error).__name__}') from error
    theirs = {name: value for name, value in environ.items() if name not in ours}
    given = read_assignments(text, path.name, theirs, warn)
    names = given.keys() - theirs.keys()
    environ.update((name, given[name]) for name in names)
    return frozenset(names | set(ours))


def read_assignments(
    text: str,
    name: str = ".env",
    environ: Mapping[str, str] | None = None,
    warn: Callable[[str], None] = lambda _: None,
) -> dict[str, str]:
    """Parse lines of ``NAME=value`` as python-dotenv does, and fill in ``${NAME}``.

    Other lines are ignored: files that other programs read as well often have some.

    Args:
        environ: takes precedence over earlier lines as the source of a ``${NAME}``.
        warn: called with the number of each ignored line, not with its text: it may be a secret.
    """
    found: dict[str, str] = {}
    for binding in parse_stream(StringIO(text)):  # unlike dotenv_values, it reports errors
        where = f"{name}:{_line(binding)}"
        if binding.error or (binding.key and not _is_assignment(binding)):
            warn(f"{where}: ignored: expected NAME=value")
        elif binding.key and binding.value is not None:
            known = {**found, **(environ or {})}
            found[binding.key], missing = _filled(binding, known)
            for variable in missing:
                warn(f"{where}: variable {variable} is not set")
    return found


def _filled(binding: Binding, known: Mapping[str, str]) -> tuple[str, Sequence[str]]:
    """Fill in the references of a value, unless it is in single quotes.

    Returns:
        the value, and the variables that are not set.
    """
    missing: list[str] = []

    def value_of(reference: re.Match[str]) -> str:
        if reference[0] == "$${":
            return "${"
        value = known.get(reference["name"])
        if value:
            return value
        if reference["default"] is None and value is None:
            missing.append(reference["name"])
        return reference["default"] or ""

    value = binding.value or ""
    assigned = binding.original.string.partition("=")[2].lstrip()
    return value if assigned.startswith("'") else _REFERENCE.sub(value_of, value), missing


def _line(binding: Binding) -> int:
    """Return the line number of a binding; its text starts with the empty lines before it."""
    text = binding.original.string
    return binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")


def _is_assignment(binding: Binding) -> bool:
    return binding.value is not None and "\0" not in f"{binding.key}{binding.value}"
