"""Reasoning that a model writes into its text, between tags: kept apart from what it says.  Pure.

Servers without a parser for a model pass on what it wrote: `<think>…</think>` and then the answer.
"""

import re
from collections.abc import Callable

_OPEN = re.compile(r"\s*<(think|thinking|thought|thoughts|reasoning|seed:think)>", re.IGNORECASE)
_LONGEST = len("<seed:think>")
# Templates that write the opening tag themselves leave only the closing one, on a line of its own.
_CLOSED = re.compile(r"\A(.*?)^[ \t]*</(?:think|thinking)>[ \t]*$\s*", re.DOTALL | re.MULTILINE)


def thoughts_and_text(content: str) -> tuple[str, str]:
    """Split a content into the reasoning before its text, and the text.

    Reasoning that never ends leaves no text.
    """
    thoughts: list[str] = []
    while (found := _OPEN.match(content)) is not None:
        end = _end_of(found[1], content, found.end())
        inner, content = (content[found.end() :], "") if end is None else (
            content[found.end() : end[0]],
            content[end[1] :].lstrip(),
        )  # fmt: skip
        thoughts.append(inner.strip())
    if not thoughts and (left := _CLOSED.match(content)) is not None and "<think" not in left[1]:
        thoughts, content = [left[1].strip()], content[left.end() :]
    return "\n\n".join(filter(None, thoughts)), content


def _end_of(tag: str, text: str, since: int) -> tuple[int, int] | None:
    found = re.compile(f"</{re.escape(tag)}>", re.IGNORECASE).search(text, since)
    return None if found is None else found.span()


class TextFilter:
    """Passes on the text of a content that comes in pieces, without the reasoning before it."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._held = ""  # what may still turn out to be a tag
        self._tag: str | None = None  # of the reasoning that is being written
        self._passes = False  # the text has begun
        self._thought = False

    def write(self, piece: str) -> None:
        """Take the next piece."""
        if self._passes:
            self._on_text(piece)
            return
        self._held += piece
        while not self._passes and self._step():
            pass

    def end(self) -> None:
        """Pass on what was held, if it is text after all."""
        if self._tag is None and not self._passes and self._held:
            self._pass_on()

    def _step(self) -> bool:
        """Judge what is held; return whether to look again."""
        if self._tag is not None:
            if (end := _end_of(self._tag, self._held, 0)) is None:
                self._held = self._held[-len(self._tag) - 3 :]
                return False
            self._tag, self._held, self._thought = None, self._held[end[1] :], True
        if (found := _OPEN.match(self._held)) is not None:
            self._tag, self._held = found[1], self._held[found.end() :]
            return True
        begun = self._held.lstrip()
        if (begun and not begun.startswith("<")) or len(begun) > _LONGEST:
            self._pass_on()
        return False

    def _pass_on(self) -> None:
        text = self._held.lstrip() if self._thought else self._held
        self._passes, self._held = True, ""
        if text:
            self._on_text(text)
