"""The provider's SDK and nothing else: many calls in flight in one process.

The best one can do with it by hand: retries off, no timeout that a busy event loop could trip,
and a client for every 100 calls, because a pool of connections gets slower as it grows.
"""

import argparse
import asyncio
import json
from collections.abc import Iterator
from importlib.metadata import version

import httpx2
from anthropic import AsyncAnthropic
from anthropic.types import ToolParam

from bench import workload
from bench.measure import Meter, peak_rss_kb, rss_kb

_POOL = 100
_TOOLS: list[ToolParam] = [ToolParam(**tool) for tool in workload.TOOLS]


def main() -> None:
    """Make the calls and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--api-key", required=True)
    parser.add_argument("--in-flight", type=int, default=2000)
    parser.add_argument("--count", type=int, default=4000)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(_call_many(options))))


async def _call_many(options: argparse.Namespace) -> dict[str, object]:
    clients = [_client(options) for _ in range(-(-options.in_flight // _POOL))]
    await _call(clients[0])  # imports what is imported late, builds what is built once
    left = iter(range(options.count))
    before_kb = rss_kb()
    meter = Meter(0)
    async with asyncio.TaskGroup() as group:
        for slot in range(options.in_flight):
            group.create_task(_call_in_turn(clients[slot % len(clients)], left))
    spent = meter.read()
    return {
        "count": options.count,
        "seconds": spent.wall,
        "cpu_seconds": spent.cpu,
        "rss_kb_in_flight": (peak_rss_kb() - before_kb) / options.in_flight,
        "versions": {name: version(name) for name in ("anthropic", "httpx2")},
    }


def _client(options: argparse.Namespace) -> AsyncAnthropic:
    return AsyncAnthropic(
        api_key=options.api_key,
        base_url=options.base_url,
        max_retries=0,
        timeout=httpx2.Timeout(600),
    )


async def _call_in_turn(client: AsyncAnthropic, left: Iterator[int]) -> None:
    for _ in left:
        await _call(client)


async def _call(client: AsyncAnthropic) -> None:
    message = await client.messages.create(
        model="bench",
        max_tokens=1024,
        system=workload.SYSTEM,
        messages=[{"role": "user", "content": workload.QUESTION}],
        tools=_TOOLS,
    )
    assert message.stop_reason == "end_turn"


if __name__ == "__main__":
    main()
