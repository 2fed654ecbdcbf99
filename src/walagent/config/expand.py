"""Expand ``${NAME}`` and ``${NAME:-default}`` in the strings of a configuration."""

import re
from collections.abc import Callable
from typing import cast

from walagent.config.complaints import Path, Place, dotted
from walagent.errors import ConfigError
from walagent.message import Json

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_INSIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?-)(.*))?", re.DOTALL)


def expand(raw: Json, find: Callable[[str], str | None], place: Place) -> Json:
    """Expand the references in every string of *raw*; ``$${`` is a literal ``${``.

    Values are neither parsed as YAML nor expanded again.

    Raises:
        ConfigError: a variable is not set and has no default; the message has its location.
    """
    return _expanded(raw, (), find, place)


def _expanded(raw: Json, path: Path, find: Callable[[str], str | None], place: Place) -> Json:
    match raw:
        case str():
            return _REFERENCE.sub(lambda found: _value(found, path, find, place), raw)
        case dict():
            entries = cast("dict[str, Json]", raw)
            return {k: _expanded(v, (*path, k), find, place) for k, v in entries.items()}
        case list():
            items = cast("list[Json]", raw)
            return [_expanded(item, (*path, n), find, place) for n, item in enumerate(items)]
        case _:
            return raw


def _value(
    found: re.Match[str], path: Path, find: Callable[[str], str | None], place: Place
) -> str:
    if found[0] == "$${":
        return "${"
    where = f"{at}: " if (at := place(path)) else ""
    if not (inside := _INSIDE.fullmatch(found[1])):
        raise ConfigError(
            f'{where}{dotted(path)}: invalid reference "{found[0]}"',
            hint="Use ${NAME} or ${NAME:-default}; $${ is a literal ${.",
        )
    name, default = inside[1], inside[3]
    value = find(name)
    if value is None and default is None:
        raise ConfigError(
            f"{where}{dotted(path)}: variable {name} is not set",
            hint=f"Set {name}, or add a default: ${{{name}:-…}}.",
        )
    return default if value is None else value
