"""The fake provider as a process: ``python -m walagent.testing --port 8099 --script replies.yaml``.

Prints its base URLs on one line when it is ready, and runs until interrupted.
"""

import argparse
import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from walagent.errors import ConfigError
from walagent.models.scripted.script_file import read_script
from walagent.testing.provider import FakeProvider, wire_formats


def main() -> int:
    """Serve until interrupted; return 2 if the script is invalid."""
    parser = argparse.ArgumentParser(prog="python -m walagent.testing", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port; 0 selects a free one")
    parser.add_argument("--script", type=Path, required=True, help="YAML or JSON file of replies")
    options = parser.parse_args()
    try:
        provider = FakeProvider.of(read_script(options.script), keep=False)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(provider, options.port))
    return 0


async def _serve(provider: FakeProvider, port: int) -> None:
    await provider.start(port)
    root = f"http://127.0.0.1:{provider.port}"
    urls = (f"{name} {root}{wire.base_path}" for name, wire in wire_formats().items())
    sys.stdout.write(f"{' '.join(urls)}\n")
    sys.stdout.flush()
    try:
        await asyncio.Event().wait()
    finally:
        await provider.stop()


if __name__ == "__main__":
    sys.exit(main())
