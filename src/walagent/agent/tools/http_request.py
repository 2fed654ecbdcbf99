"""A request of a tool over HTTP, and the limits of its exchange."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

import orjson

_LEAST_SECRET: Final = 4  # characters; a shorter one occurs in any text


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request whose templates are filled."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    secrets: Sequence[str] = field(repr=False)  # values that no result shows

    def masked(self, text: str) -> str:
        """Replace the secrets of the request in *text*."""
        forms = {
            form
            for value in self.secrets
            for form in (value, quote(value, safe="/"), quote(value, safe=""), _in_json(value))
            if len(form) >= _LEAST_SECRET
        }
        for form in sorted(forms, key=len, reverse=True):
            text = text.replace(form, "***")
        return text


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one exchange: bytes of its answer, and seconds of each wait."""

    most: int
    seconds: float


def _in_json(value: str) -> str:
    return orjson.dumps(value).decode()[1:-1]
