"""The words of a message.  Pure."""

from collections.abc import Iterator, Mapping

import orjson

from walagent.domain.untrusted import visible
from walagent.message import Json
from walagent.store.outbox import Delivery

_MOST = 20_000  # characters of a text
_MOST_VALUE = 4_000  # characters of one value


def text_of(delivery: Delivery, link: str | None) -> str:
    """Return the text for people: that of the message, otherwise a line for each of its fields."""
    given = delivery.body.get("text")
    text = given if isinstance(given, str) else "\n".join(_lines(delivery.body))
    decide = f"\n\nDecide here, until the approval expires:\n{link}" if link else ""
    return _cut(visible(text), _MOST) + decide


def payload_of(delivery: Delivery, link: str | None) -> bytes:
    """Return the body of a webhook: the same bytes in each attempt."""
    return orjson.dumps(
        {
            "id": delivery.id,
            "type": delivery.event,
            "timestamp": delivery.created_at.isoformat(),
            "tenant": delivery.tenant,
            "subject": delivery.subject,
            "data": dict(delivery.body),
            **({"link": link} if link else {}),
        },
        option=orjson.OPT_SORT_KEYS,
    )


def _lines(body: Mapping[str, Json]) -> Iterator[str]:
    for name, value in body.items():
        if value is not None:
            # A row can have a key with line breaks, which would look like other fields.
            is_line = isinstance(value, str) and value.isprintable()
            shown = str(value) if is_line else orjson.dumps(value).decode()
            yield f"{visible(name)}: {_cut(visible(shown), _MOST_VALUE)}"


def _cut(text: str, most: int) -> str:
    """Cut a text that is too long, and say so."""
    return text if len(text) <= most else f"{text[:most]}… (cut, {len(text):,} characters)"
