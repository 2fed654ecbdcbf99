"""The messages of a shape, as bytes of JSON.

Source: the HTTP Shape protocol.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import orjson

from walagent.message import Json

MUST_REFETCH: Final = orjson.dumps([{"headers": {"control": "must-refetch"}}])


def up_to_date(lsn: int) -> bytes:
    """Return the control message that ends what there is now."""
    return orjson.dumps({"headers": {"control": "up-to-date", "global_last_seen_lsn": str(lsn)}})


def snapshot_end(xmin: int, xmax: int, running: Sequence[int]) -> bytes:
    """Return the control message after a snapshot, with what the snapshot has."""
    return orjson.dumps(
        {
            "headers": {
                "control": "snapshot-end",
                "xmin": str(xmin),
                "xmax": str(xmax),
                "xip_list": [str(each) for each in running],
            }
        }
    )


def row_message(  # noqa: PLR0913, PLR0917 - the parts of a message
    operation: str,
    relation: tuple[str, str],
    key: str,
    value: Mapping[str, str | None],
    headers: Mapping[str, Json],
    old_value: Mapping[str, str | None] | None = None,
) -> bytes:
    """Return the message of one row."""
    message: dict[str, object] = {
        "key": key,
        "value": value,
        "headers": {"operation": operation, "relation": relation, **headers},
    }
    if old_value is not None:
        message["old_value"] = old_value
    # A copy: what orjson returns holds a buffer of 4 KB at least.
    return bytes(memoryview(orjson.dumps(message)))
