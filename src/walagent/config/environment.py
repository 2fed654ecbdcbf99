"""Where settings and secrets that are not in the file come from: variables, `.env`, systemd.

Keys of models are looked for by `agent.models.credentials`; this is for the configuration itself.
"""

import os
import re
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from walagent.errors import ConfigError

_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_COMMENT = re.compile(r"\s+#.*$")


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
    names = {name for name, _ in given if name in ours or name not in environ}
    for name in names:
        environ.pop(name, None)
    for name, value in given:
        environ.setdefault(name, value)
    return frozenset(names | set(ours))


def read_assignments(text: str, name: str = ".env") -> list[tuple[str, str]]:
    """Read lines of ``NAME=value``; values may be quoted, ``#`` begins a comment.

    Raises:
        ConfigError: a line is none of these; it is named by its number, for it may be a secret.
    """
    found: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()  # noqa: PLW2901 - the same line, tidied
        if not line or line.startswith("#"):
            continue
        if not (match := _ASSIGNMENT.fullmatch(line)):
            raise ConfigError(f"{name}:{number}: expected NAME=value")
        found.append((match[1], _unquoted(match[2])))
    return found


def _unquoted(value: str) -> str:
    quote = value[:1]
    if quote in {"'", '"'} and (end := value.find(quote, 1)) > 0:
        return value[1:end]
    return "" if quote == "#" else _COMMENT.sub("", value)
