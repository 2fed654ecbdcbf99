"""Where settings and secrets that are not in the file come from: variables, `.env`, systemd.

Keys of models are looked for by `agent.models.credentials`; this is for the configuration itself.
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
    """Named values: of systemd's credentials directory, else of the environment."""

    variables: Mapping[str, str] = field(repr=False)
    credentials: Path | None = None

    @classmethod
    def of_process(cls) -> "Environment":
        """What this process was given."""
        folder = os.environ.get("CREDENTIALS_DIRECTORY")
        return cls(os.environ, Path(folder) if folder else None)

    def find(self, name: str) -> str | None:
        """Give the value called *name*; None where it is not set, or empty.

        Raises:
            ConfigError: it is a credential that cannot be read.
        """
        path = self.credentials and self.credentials / name
        if path is None or not path.is_file():
            return self.variables.get(name) or None
        try:
            return path.read_text("utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            raise ConfigError(f"the credential file {name} cannot be read") from None


def load_env_file(
    path: Path, environ: MutableMapping[str, str], ours: Collection[str] = ()
) -> frozenset[str]:
    """Put what *path* sets into *environ*, unless somebody else has set it there already.

    Does nothing when there is no such file.  Libpq and the models' SDKs look for their variables
    in the environment of the process, so that is where they must be.

    Args:
        ours: the names that an earlier reading of the file has put there.

    Returns:
        the names that are the file's.

    Raises:
        ConfigError: a line is no assignment.
    """
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return frozenset(ours)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {type(error).__name__}") from error
    given = read_assignments(text, path.name)
    names = {name for name in given if name in ours or name not in environ}
    environ.update((name, given[name]) for name in names)
    return frozenset(names | set(ours))


def read_assignments(text: str, name: str = ".env") -> dict[str, str]:
    """Read lines of ``NAME=value`` as python-dotenv does, without its interpolation.

    Raises:
        ConfigError: a line is no assignment; it is named by its number, for it may be a secret.
    """
    found: dict[str, str] = {}
    for binding in parse_stream(StringIO(text)):  # unlike dotenv_values, it says what is wrong
        if binding.error or (binding.key and not _is_assignment(binding)):
            raise ConfigError(f"{name}:{_line(binding)}: expected NAME=value")
        if binding.key and binding.value is not None:
            found[binding.key] = binding.value
    return found


def _line(binding: Binding) -> int:
    """Give the line on which a binding stands; its text starts with the empty lines before it."""
    text = binding.original.string
    return binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")


def _is_assignment(binding: Binding) -> bool:
    return binding.value is not None and _NAME.fullmatch(binding.key or "") is not None
