"""Find the command that somebody meant."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from walagent.cli.commands import walk
from walagent.cli.moved import MOVED

_LEAST: Final = 0.7  # 1: equal but for the order of words and a plural
# What other programs call it.
_MEANT: Final = {
    "logs": "runs list", "log": "runs list", "ps": "status", "info": "status", "health": "status",
    "start": "run", "up": "run", "install": "init", "remove": "database uninstall",
}  # fmt: skip
_FULL: Final = 0.1  # weight of the whole path: among equals, the group that was typed wins


def nearest(typed: str, group: Sequence[str] = ()) -> str | None:
    """Return the nearest command of all groups, as it is typed; None if none is near.

    Args:
        group: the group in which it was typed.
    """
    if not group and typed.lower() in _MEANT:
        return _MEANT[typed.lower()]
    names = {" ".join(path): [path[-1], " ".join(path)] for path, _ in walk()}
    for old, new in MOVED.items():
        names.setdefault(new, []).append(old)
    whole = " ".join((*group, typed))
    scores = {
        path: max(_likeness(typed, name) for name in known) + _FULL * _likeness(whole, path)
        for path, known in names.items()
    }
    best = max(scores, key=scores.__getitem__)
    return best if scores[best] >= _LEAST else None


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, _normal(one), _normal(other)).ratio()


def _normal(name: str) -> str:
    words = name.lower().replace("-", " ").replace("_", " ").split()
    return " ".join(sorted(word.removesuffix("s") for word in words))
