"""Answers of other systems, as models receive them: data in a block, cut and cleaned."""

import os
from typing import Final

from walagent.domain.untrusted import framed, marker, without_control

_SECRET: Final = os.urandom(32)  # makes markers


def answer(source: str, text: str, run_id: int, most: int) -> str:
    """Put an answer into a block of data, cut to *most* characters.

    The marker is the same for all answers of a run, so that a circle of calls is seen as one.
    """
    clean = without_control(text)
    if len(clean) > most:
        clean = f"{clean[:most]}\n(cut: the first {most:,} of {len(clean):,} characters)"
    return framed("answer", clean, marker(_SECRET, run_id), source=source)
