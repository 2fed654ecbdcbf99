"""Python tools, one of each way to reach "exactly once".

The two that leave the database write to a file instead of a neighbour's service: one line a call,
with the idempotency key.
"""

import os
import signal
from pathlib import Path

from walagent.tools import Effect, ToolContext, tool

OUTSIDE = "WALAGENT_TEST_OUTSIDE"  # the variable that names the file


@tool(effect=Effect.TRANSACTIONAL)
async def note_in_python(ctx: ToolContext, item: int, version: int) -> str:
    """Note a change, in the transaction of the step."""
    assert ctx.conn is not None
    await ctx.conn.execute(
        "insert into public.effect (tool, item, version) values ('python', %s, %s)", [item, version]
    )
    return "noted"


@tool(effect=Effect.IDEMPOTENT)
async def tell_again(ctx: ToolContext, item: int) -> str:
    """Tell the outside of an item; telling it again with the same key does no harm."""
    _tell(ctx, item)
    return "told"


@tool(effect=Effect.UNSAFE)
async def tell_once(ctx: ToolContext, item: int) -> str:
    """Tell the outside of an item, where telling it twice would be wrong."""
    _tell(ctx, item)
    return "told"


@tool(effect=Effect.TRANSACTIONAL)
async def kill_the_worker(_ctx: ToolContext) -> str:
    """End the process without a word, as a tool that eats all memory does."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def _tell(ctx: ToolContext, item: int) -> None:
    with Path(os.environ[OUTSIDE]).open("a") as file:
        file.write(f"{item} {ctx.idempotency_key}\n")
