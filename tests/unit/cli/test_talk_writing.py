"""What a terminal shows of a reply that is written and posted: once, whichever comes first."""

import pytest

from walagent.cli.threads.talk_replies import Writing


def change(text: str, state: str | None = None, reply: int = 7) -> dict[str, object]:
    """A change of a reply, as the server sends it."""
    given: dict[str, object] = {"reply": reply, "agent": "sarah", "text": text}
    return given | ({"state": state} if state else {})


def test_what_was_written_is_not_shown_when_it_is_posted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a rule: the text comes while it is written."""
    writing = Writing()
    writing.take(change("It is "))
    writing.take(change("done."))
    writing.take(change("", "recorded"))
    assert writing.has_shown("sarah", "It is done.")
    assert capsys.readouterr().out == "sarah: It is done.\n"


def test_what_was_posted_is_not_written_again(capsys: pytest.CaptureFixture[str]) -> None:
    """The terminal was slower than the agent; the next reply is shown while it is written."""
    writing = Writing()
    assert not writing.has_shown("sarah", "It is done.")
    for text, state in (("It is ", None), ("done.", None), ("", "recorded")):
        writing.take(change(text, state))
    assert capsys.readouterr().out == ""
    writing.take(change("Now ", reply=8))
    assert capsys.readouterr().out == "sarah: Now "
