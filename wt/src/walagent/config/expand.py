"""``${NAME}`` and ``${NAME:-default}`` in the texts of a configuration."""

import re
from collections.abc import Callable
from typing import cast

from walagent.config.complaints import Path, Place, dotted
from walagent.errors import ConfigError
from walagent.message import Json

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_INSIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?-)(.*))?", re.DOTALL)


def expand(raw: Json, find: Callable[[str], str | None], place: Place) -> Json:
    """Put the environment's values into every text of *raw*; ``$${`` stands for ``${``.

    What is put in is never read as YAML, nor expanded again.

    Raises:
        ConfigError: a variable is not set and has no default; it is named, with its place.
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
            f"{where}{dotted(path)}: {found[0]} is no variable",
            hint="write ${NAME} or ${NAME:-default}; $${ stands for ${",
        )
    name, default = inside[1], inside[3]
    value = find(name)
    if value is None and default is None:
        raise ConfigError(
            f"{where}{dotted(path)}: the variable {name} is not set",
            hint=f"set {name}, or give a default: ${{{name}:-…}}",
        )
    return default if value is None else value
