"""Render a context from a template, in a process of its own.

A template is written by the role that attaches the agent, which may be of another tenant than
others that this worker serves: so it is rendered in Jinja's sandbox, in a process without the
environment of the worker, with limits of time and memory.  Everything that a template prints is
escaped, so no text of a user can write a tag or begin a line; there is no way to print it raw.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import orjson

from walagent.base.extras import install_hint
from walagent.base.private import close_process
from walagent.domain.thread import ThreadView
from walagent.errors import PreconditionError
from walagent.message import Json

_SECONDS: Final = 5  # of CPU, and of waiting for it twice as many
_ERROR: Final = 3  # exit code: the template is wrong
_PROCESS: Final = Path(__file__).with_name("thread_template_process.py")


class TemplateError(Exception):
    """A template that is wrong, or takes too long."""


async def render_template(template: str, view: ThreadView, seconds: float = _SECONDS) -> str:
    """Render a thread.

    Args:
        seconds: of CPU time.

    Raises:
        TemplateError: the template is wrong, or exceeds a limit.
        PreconditionError: Jinja is not installed.
    """
    if find_spec("jinja2") is None:
        raise PreconditionError(
            "templates of contexts need Jinja", hint=f"Run: {install_hint('walagent[templates]')}"
        )
    close_process()
    request = orjson.dumps({"template": template, "seconds": seconds, "thread": shown(view)})
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(_PROCESS),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"WALAGENT_PATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        async with asyncio.timeout(2 * seconds):
            printed, _ = await process.communicate(request)
    except TimeoutError as error:
        raise TemplateError(f"it was not rendered within {2 * seconds:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == _ERROR:
        raise TemplateError(printed.decode("utf-8", "replace"))
    if process.returncode != 0:
        raise TemplateError(f"it exceeds {seconds:g} s of CPU time, or the limit of memory")
    return printed.decode()


def shown(view: ThreadView) -> Mapping[str, Json]:
    """Return what a template sees."""
    return {
        "thread": {"id": view.id, "title": view.title, "state": view.state},
        "agent": view.agent,
        "summary": view.summary,
        "members": [
            {"name": m.name, "id": m.id, "kind": m.kind, "role": m.role} for m in view.members
        ],
        "events": [
            {
                "number": event.number,
                "id": event.id,
                "type": event.type,
                "author": event.author,
                "author_kind": event.author_kind,
                "text": event.data.get("text"),
                "data": orjson.loads(orjson.dumps(event.data, default=str)),
                "created_at": event.created_at,
                "is_new": event.number > (view.seen or 0),
            }
            for event in view.latest
        ],
        "facts": [
            {
                "id": fact.id,
                "subject": fact.subject,
                "predicate": fact.predicate,
                "object": fact.object,
                "category": fact.category,
                "confidence": fact.confidence,
                "disputed": fact.disputed,
            }
            for fact in view.facts
        ],
    }
