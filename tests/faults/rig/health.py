"""What a daemon says of itself over HTTP."""

import asyncio
import json
from collections.abc import Sequence
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.faults.rig.waiting import DEADLINE, until_true


async def readiness(port: int) -> tuple[int, Sequence[str]]:
    """What /readyz answers now, and its reasons; 0 when nobody listens yet."""

    def ask() -> tuple[int, Sequence[str]]:
        try:
            with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return answer.status, ()
        except HTTPError as error:
            with error:
                return error.code, json.loads(error.read())["reasons"]
        except OSError:
            return 0, ()

    return await asyncio.to_thread(ask)


async def is_ready(port: int, *, seconds: float = DEADLINE) -> float:
    """Wait until /readyz answers 200; return how long that took."""

    async def ready() -> bool:
        return (await readiness(port))[0] == 200

    return await until_true(ready, "/readyz answers 200", seconds=seconds)


async def is_unready(port: int, why: str, *, seconds: float = DEADLINE) -> float:
    """Wait until /readyz answers 503 with *why* among its reasons; return how long that took."""
    last: tuple[int, Sequence[str]] = (0, ())

    async def unready() -> bool:
        nonlocal last
        last = await readiness(port)
        return last[0] == 503 and any(why in reason for reason in last[1])

    try:
        return await until_true(unready, f"/readyz says {why}", seconds=seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}; it says {last}") from error
