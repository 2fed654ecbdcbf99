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


@pytest.mark.parametrize("written", [["It is "], ["It ", "is done."], ["\nIt is", " done.\n"]])
def test_what_is_posted_before_the_end_of_its_reply_is_completed(
    capsys: pytest.CaptureFixture[str], written: list[str]
) -> None:
    """The event is read from the database, and can be faster than the stream."""
    writing = Writing()
    for text in written:
        writing.take(change(text))
    assert writing.has_shown("sarah", "It is done.")
    for text, state in (("is done.", None), ("", "recorded")):
        writing.take(change(text, state))
    shown = capsys.readouterr().out
    assert " ".join(shown.split()) == "sarah: It is done."
    assert shown.endswith("\n")
    writing.take(change("Now ", reply=8))
    assert capsys.readouterr().out == "sarah: Now "
    # The end of the first one was no other text.
    assert not writing.has_shown("bob", "Now then.")


def test_a_line_that_somebody_broke_is_completed_with_its_author(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As the rest of a reply is."""
    writing = Writing()
    writing.take(change("It is "))
    writing.end_line()
    assert not writing.has_shown("bob", "Late.")
    assert writing.has_shown("sarah", "It is done.")
    assert capsys.readouterr().out == "sarah: It is \nsarah: done.\n"
