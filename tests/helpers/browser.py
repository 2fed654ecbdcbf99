"""Scripts of tests/web that drive Chromium."""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

WEB: Final = Path(__file__).parents[1] / "web"
# Each width in both themes with `make browsers`; else one of a desk and one of a phone.
VIEWS: Final = (
    [(width, theme) for width in (1440, 1024, 390) for theme in ("light", "dark")]
    if "WALAGENT_VIEWS" in os.environ
    else [(1440, "light"), (390, "dark")]
)
CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
MARKS: Final = [
    pytest.mark.web,
    pytest.mark.skipif(
        shutil.which("node") is None or not (WEB / "node_modules" / "playwright-core").is_dir(),
        reason="make web-test installs the packages",
    ),
]


async def use(script: str, **given: object) -> dict[str, Any]:
    """Run a script; return what it saw."""
    shots = os.environ.get("WALAGENT_SHOTS")
    options = {**given, "chromium": CHROMIUM, "shots": shots, "views": VIEWS}
    process = await asyncio.create_subprocess_exec(
        *("node", script, json.dumps(options)),
        cwd=WEB,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), 900)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    return json.loads(out)
