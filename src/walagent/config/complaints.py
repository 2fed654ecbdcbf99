"""Validate plain values as a `Config`; report all problems in one error."""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from walagent.config.expected import expected, keys_at, of_pattern, schema_at
from walagent.config.root import Config
from walagent.errors import ConfigError
from walagent.message import Json

Path = tuple[str | int, ...]
Place = Callable[[Path], str]
"""Returns the location of a path, such as ``agents.yaml:12``."""


def parse_config(raw: Mapping[str, Json], place: Place) -> Config:
    """Validate *raw*, the content of a file, as a `Config`.

    Raises:
        ConfigError: with one line for each problem.
    """
    try:
        # A section that contains only comments is null.
        return Config.model_validate({k: v for k, v in raw.items() if v is not None})
    except ValidationError as error:
        problems = [_problem(details, place) for details in error.errors(include_input=False)]
        raise ConfigError("\n".join(problems)) from None  # its text quotes values of the file


def _problem(details: ErrorDetails, place: Place) -> str:
    path = _clean(details["loc"])
    at = place(path)
    where = f"{at}: " if at else ""
    match details["type"]:
        case "extra_forbidden":
            return f"{where}{unknown_key(dotted(path), str(path[-1]), keys_at(Config, path[:-1]))}"
        case "missing":
            return f"{where}{dotted(path)} is missing"
        case _:
            name = f"{dotted(path)}: " if path else ""
            return f"{where}{name}{_sentence(details, path)}"


def unknown_key(path: str, key: str, known: Sequence[str]) -> str:
    """Report an unknown key, with the nearest and all known ones."""
    near = get_close_matches(key.lower(), known, n=1, cutoff=0.5)
    guess = f"did you mean {near[0]}? " if near else ""
    return f'unknown key "{path}"; {guess}known: {", ".join(sorted(known))}'


def dotted(path: Path) -> str:
    """Format a path as ``agents.triage.attach[0].table``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _clean(loc: tuple[str | int, ...]) -> Path:
    """Drop the steps that pydantic adds for unions and validators."""
    return tuple(step for step in loc if isinstance(step, int) or "[" not in step)


# pydantic's errors about a value that its type or bounds do not allow.
_VALUE = re.compile(
    r".*_(type|parsing|too_short|too_long)|(greater|less)_than(_equal)?|literal_error|finite_number"
    r"|too_short|int_from_float"
)


def _sentence(details: ErrorDetails, path: Path) -> str:
    kind, is_key = details["type"], details["loc"][-1:] == ("[key]",)
    if _VALUE.fullmatch(kind) and not is_key and (schema := schema_at(Config, path)) is not None:
        quotes = "; put it in quotes" if kind == "string_type" else ""
        return expected(schema) + quotes
    if kind == "string_pattern_mismatch":
        return of_pattern(str(details.get("ctx", {}).get("pattern", "")))
    message = details["msg"].removeprefix("Value error, ")
    message = message.replace("Input should", "must").replace(" should ", " must ")
    return message[:1].lower() + message[1:]
