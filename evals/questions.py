"""The questions as values; `questions.yaml` says what their fields mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import yaml

Expect = Literal["rows", "clarify", "refused", "harmless"]

FILE = Path(__file__).with_name("questions.yaml")


@dataclass(frozen=True, slots=True)
class Question:
    """One question; see the head of questions.yaml."""

    id: str
    level: int
    text: str
    sql: str = ""
    expect: Expect = "rows"
    ordered: bool = False
    within: float = 0.005
    after: str | None = None


@cache
def the_questions() -> Sequence[Question]:
    """Read them all, each after the one that it follows up."""
    return tuple(Question(**entry) for entry in yaml.safe_load(FILE.read_text("utf-8")))


def session_of(question: Question, run: str) -> str:
    """Name the session in which a question is asked: that of the first one it goes back to."""
    by_id = {each.id: each for each in the_questions()}
    while question.after is not None:
        question = by_id[question.after]
    return f"{run}-{question.id}"
