"""Text that somebody else's program wrote, before a model or a person reads it."""

import re
from typing import Final

# Control characters but tab and newline, what turns the direction of writing, what is not seen.
_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f\ud800-\udfff]"
)


def without_control(text: str) -> str:
    """Leave out what a reader does not see: control characters, marks of direction, tags."""
    return _UNSEEN.sub("", text)


def one_line(text: str, most: int) -> str:
    """Give a text as one line of at most *most* characters."""
    line = " ".join(without_control(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
