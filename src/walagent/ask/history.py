"""The session in a prompt: the latest turns in full, older ones as a summary.

A turn is the question, the answer and its statements.  Rows are not repeated: of each result it is
said how large it is and which step of which run keeps it.
"""

from collections.abc import Iterator, Sequence

from walagent.message import Message, Text
from walagent.store.questions import SessionHistory, Turn

_ANSWER = 2_000  # characters of an answer that later questions are shown
_SQL = 2_000  # and of each of its statements
_AT_ONCE = 40_000  # characters that one summary is made of


def messages(past: SessionHistory, most: int) -> Sequence[Message]:
    """Tell the latest turns that fit into *most* characters, oldest first, after the summary."""
    shown = [message for turn in _fitting(past.turns, most) for message in _messages(turn)]
    if past.summary:
        summary = f"What was asked and found in this session before:\n{past.summary}"
        shown[:0] = [_says("user", summary), _says("assistant", "I know of it.")]
    return shown


def too_old(past: SessionHistory, most: int) -> Sequence[Turn]:
    """Give the turns that must be summarised, oldest first; none while all fit.

    Where some do not, only half of the room stays taken, so that the next questions fit, too.
    """
    if len(_fitting(past.turns, most)) == len(past.turns):
        return ()
    old = past.turns[: len(past.turns) - len(_fitting(past.turns, most // 2))]
    left, taken = _AT_ONCE, 0
    for turn in old:
        left -= size(turn)
        taken += 1
        if left < 0:
            break
    return old[:taken]


def as_text(turn: Turn) -> str:
    """Return a turn as text, for the summary."""
    return f"Question: {turn.question}\nAnswer: {_answer(turn)}"


def size(turn: Turn) -> int:
    """Count the characters that a turn takes."""
    return len(turn.question) + len(_answer(turn))


def _fitting(turns: Sequence[Turn], most: int) -> Sequence[Turn]:
    for n in range(len(turns) - 1, -1, -1):
        most -= size(turns[n])
        if most < 0:
            return turns[n + 1 :]
    return turns


def _messages(turn: Turn) -> Iterator[Message]:
    yield _says("user", turn.question)
    yield _says("assistant", _answer(turn))


def _answer(turn: Turn) -> str:
    answer = turn.answer
    lines = [_cut(str(answer.get("answer") or "(no answer)"), _ANSWER)]
    lines += (_cut(str(sql), _SQL) for sql in answer.get("sql") or ())
    lines += (
        f"(result {each['id']}: {each['rows']:,} rows of {', '.join(each['columns'][:20])})"
        for each in answer.get("results") or ()
    )
    return "\n".join(lines)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _says(role: str, text: str) -> Message:
    return Message("user" if role == "user" else "assistant", (Text(text),))
