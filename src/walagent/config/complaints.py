"""Validate plain values as a `Config`; report all problems in one error."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

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
            return f"{where}{unknown_key(dotted(path), str(path[-1]), keys_at(path[:-1]))}"
        case "missing":
            return f"{where}{dotted(path)} is missing"
        case _:
            name = f"{dotted(path)}: " if path else ""
            return f"{where}{name}{_sentence(details)}"


def unknown_key(path: str, key: str, known: Sequence[str]) -> str:
    """Report an unknown key, with the nearest and all known ones."""
    near = get_close_matches(key.lower(), known, n=1, cutoff=0.5)
    guess = f"did you mean {near[0]}? " if near else ""
    return f'unknown key "{path}"; {guess}known: {", ".join(sorted(known))}'


def dotted(path: Path) -> str:
    """Format a path as ``agents.triage.attach[0].table``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def keys_at(path: Path) -> list[str]:
    """List the keys that are known at *path*."""
    model = _model_at(path)
    return list(model.model_fields) if model else []


def _model_at(path: Path) -> type[BaseModel] | None:
    here: Any = Config
    for step in path:
        model = _model_in(here)
        if model is not None and step in model.model_fields:
            here = model.model_fields[str(step)].annotation
        elif model is not None and isinstance(step, str) and here is model:
            return None
    return _model_in(here)


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Find the model in ``Model``, ``dict[str, Model]``, ``tuple[Model, ...]`` or a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _model_in(arg))), None)


def _clean(loc: tuple[str | int, ...]) -> Path:
    """Drop the steps that pydantic adds for unions and validators."""
    return tuple(step for step in loc if isinstance(step, int) or "[" not in step)


# Types of pydantic's errors whose own messages name Python types.
_MUST = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "int_parsing": "must be an integer",
    "int_type": "must be an integer",
    "model_type": "must be a mapping",
    "string_type": "must be a string; put it in quotes",
    "tuple_type": "must be a list",
}


def _sentence(details: ErrorDetails) -> str:
    if known := _MUST.get(details["type"]):
        return known
    message = details["msg"].removeprefix("Value error, ")
    message = message.replace("Input should", "must").replace(" should ", " must ")
    return message[:1].lower() + message[1:]
