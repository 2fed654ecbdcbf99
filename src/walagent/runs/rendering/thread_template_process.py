"""The process in which a template is rendered: a request on stdin, what it prints on stdout.

It imports nothing of walagent, and has nothing in its environment but where Jinja is.
"""

import json
import os
import resource
import sys
from collections.abc import Mapping
from typing import Any, Final

_MEMORY: Final = 512 << 20
_MOST: Final = 4 << 20  # characters that it prints
_ERROR: Final = 3  # exit code: the template is wrong
_RAW: Final = ("safe", "e", "escape", "forceescape", "xmlattr", "tojson", "urlize")
_ESCAPES: Final = str.maketrans({
    "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;",
    "\v": "&#11;", "\f": "&#12;", "\u0085": "&#133;", "\u2028": "&#8232;", "\u2029": "&#8233;",
})  # fmt: skip


def escaped(value: object) -> object:
    """Return what is printed of a value: texts cannot write a tag or begin a line."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text.translate(_ESCAPES)


def render(template: str, values: Mapping[str, Any]) -> str:
    """Render a template in the sandbox."""
    from jinja2 import StrictUndefined, TemplateSyntaxError  # noqa: PLC0415 - in this process alone
    from jinja2.nodes import FilterBlock  # noqa: PLC0415
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, finalize=escaped, autoescape=False, trim_blocks=True
    )
    for name in _RAW:  # they mark a text as escaped, or escape it in another way
        del environment.filters[name]  # pyright: ignore[reportUnknownMemberType]
    for block in environment.parse(template).find_all(FilterBlock):
        raise TemplateSyntaxError(
            "a filter block would change what is escaped; use the filter on a value", block.lineno
        )
    printed: list[str] = []
    size = 0
    for part in environment.from_string(template).generate(**values):
        size += len(part)
        if size > _MOST:
            raise ValueError(f"it prints more than {_MOST >> 20} MB")
        printed.append(part)
    return "".join(printed)


def main() -> int:
    """Render what stdin has."""
    sys.path[:0] = os.environ.pop("WALAGENT_PATH", "").split(os.pathsep)
    request = json.load(sys.stdin.buffer)
    seconds = max(1, round(request["seconds"]))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    try:
        text, code = render(request["template"], request["thread"]), 0
    except MemoryError:
        return 1
    except Exception as error:  # noqa: BLE001 - whatever a template raises
        number = getattr(error, "lineno", None)
        line = f"line {number}: " if number else ""
        text, code = f"{line}{type(error).__name__}: {error}"[:2000], _ERROR
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    return code


if __name__ == "__main__":
    sys.exit(main())
