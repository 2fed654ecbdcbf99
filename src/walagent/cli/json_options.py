"""Options and files that are JSON: read with all digits, so that an amount is stored as written."""

from typing import cast

import orjson

from walagent.errors import ConfigError
from walagent.message import Json
from walagent.store.codecs.exact import read_json


def json_object(text: str, name: str) -> dict[str, Json]:
    """Parse a JSON object.

    Args:
        name: of the option or file, for messages.

    Raises:
        ConfigError: it is something else, or nested too deep.
    """
    try:
        value = read_json(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must be a JSON object")
    return cast("dict[str, Json]", value)
