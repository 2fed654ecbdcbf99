"""The bugs that `make planted` plants still fit the source."""

from pathlib import Path

import pytest

from tests.faults.planted.bugs import BUGS, CONTROL, Bug

ROOT = Path(__file__).parents[3]


def planted(bug: Bug) -> dict[str, str]:
    """The files that a bug changes, as it leaves them; raises where it does not fit any more."""
    texts: dict[str, str] = {}
    for edit in bug.edits:
        texts[edit.file] = edit.on(texts.get(edit.file) or (ROOT / edit.file).read_text())
    return texts


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_fits_the_source_of_today(bug: Bug) -> None:
    """Each place is there, exactly as often as was said, and what comes of it can be compiled."""
    for file, text in planted(bug).items():
        assert text != (ROOT / file).read_text()
        if file.endswith(".py"):
            compile(text, file, "exec")


@pytest.mark.parametrize(
    "test", sorted({CONTROL, *(c.test for bug in BUGS for c in bug.caught_by)})
)
def test_a_test_that_catches_a_planted_bug_is_there(test: str) -> None:
    """By its file and its name."""
    file, name = test.split("::")
    assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text()


def test_a_bug_that_does_not_fit_any_more_says_so() -> None:
    """Else it would be planted nowhere, and the tests that pass would be thought to be blind."""
    with pytest.raises(LookupError, match="0 times instead of 1"):
        BUGS[0].edits[0].on("something else")
