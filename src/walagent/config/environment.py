"""Read settings and secrets from environment variables, `.env` and systemd credentials.

For the configuration; `agent.models.credentials` reads the API keys of models.
"""

import os
import re
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from dotenv.parser import Binding, parse_stream

from walagent.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
    path: Path, environ: MutableMapping[str, str], ours: Collection[str] = ()
) -> frozenset[str]:
    """Set the variables of *path* in *environ*; variables that are already set take precedence.

    Does nothing if the file does not exist.  libpq and the SDKs of models read their variables from
    the environment of the process.

    Args:
        ours: the names that an earlier call has set.

    Returns:
        the names that the file sets.

    Raises:
        ConfigError: the file is unreadable or invalid.
    """
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return frozenset(ours)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f'cannot read "{path}": {type(error).__name__}') from error
    given = read_assignments(text, path.name)
    names = {name for name in given if name in ours or name not in environ}
    environ.update((name, given[name]) for name in names)
    return frozenset(names | set(ours))


def read_assignments(text: str, name: str = ".env") -> dict[str, str]:
    """Parse lines of ``NAME=value`` as python-dotenv does, without its interpolation.

    Raises:
        ConfigError: a line is not an assignment; only its number is shown: it may be a secret.
    """
    found: dict[str, str] = {}
    for binding in parse_stream(StringIO(text)):  # unlike dotenv_values, it reports errors
        if binding.error or (binding.key and not _is_assignment(binding)):
            raise ConfigError(f"{name}:{_line(binding)}: expected NAME=value")
        if binding.key and binding.value is not None:
            found[binding.key] = binding.value
    return found


def _line(binding: Binding) -> int:
    """Return the line number of a binding; its text starts with the empty lines before it."""
    text = binding.original.string
    return binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")


def _is_assignment(binding: Binding) -> bool:
    return binding.value is not None and _NAME.fullmatch(binding.key or "") is not None
