"""A request of a tool over HTTP, and the limits of its exchange."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from walagent.domain.untrusted import without_control

_LEAST_SECRET: Final = 4  # characters; a shorter one occurs in any text


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request whose templates are filled."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    secrets: Sequence[str] = field(repr=False)  # values that no result shows

    def masked(self, text: str, *, cut: bool = False) -> str:
        """Replace the secrets of the request in *text*.

        Args:
            cut: whether the text ends within a longer one: what begins a secret at its end is
                replaced, too.
        """
        shown, end = list[str](), 0
        for start, stop in sorted(self._found(text, cut=cut)):
            if start >= end:
                shown += (text[end:start], "***")
            end = max(end, stop)
        return "".join((*shown, text[end:]))

    def _found(self, text: str, *, cut: bool) -> Iterator[tuple[int, int]]:
        """Yield where secrets are, from and to; the places can overlap."""
        for form in self._forms():
            start = text.find(form)
            while start >= 0:
                yield start, start + len(form)
                start = text.find(form, start + 1)
            for length in range(1, len(form)) if cut else ():
                if text.endswith(form[:length]):
                    yield len(text) - length, len(text)

    def _forms(self) -> set[str]:
        """Return the secrets as they can be written, in a text without control characters."""
        forms = {without_control(form) for value in self.secrets for form in _written(value)}
        return {form for form in forms if len(form) >= _LEAST_SECRET}


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one exchange: bytes of its answer, and seconds of each wait."""

    most: int
    seconds: float


def _written(value: str) -> Iterator[str]:
    """Yield a value as servers write it: as it is, in a URL, and in JSON."""
    yield from (value, quote(value, safe="/"), quote(value, safe=""))
    for ascii_only in (False, True):
        quoted = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield from (quoted, quoted.replace("/", "\\/"))
