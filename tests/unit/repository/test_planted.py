"""The bugs that `make planted` plants fit the source."""

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.planted.bugs import BUGS, CONTROL, Bug
from tests.faults.planted.marks import (
    Before,
    Delete,
    Edit,
    Rewrite,
    apply_edits,
    find_marks,
    read_source,
)

ROOT = Path(__file__).parents[3]
SOURCE = read_source(ROOT)


def test_each_mark_in_the_source_occurs_once_and_belongs_to_a_bug() -> None:
    """And each mark that a bug needs is there: both sides list the same marks."""
    found = Counter(mark for mark, _ in find_marks(SOURCE))
    assert found == Counter({edit.mark for bug in BUGS for edit in bug.edits})


def test_no_comment_looks_like_a_mark_and_is_none() -> None:
    """A mark with a line of its own, or with words after its name, would not be found."""
    written = sum(text.count(" planted: ") for text in SOURCE.values())
    assert written == sum(len(find_marks({path: text})) for path, text in SOURCE.items())


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_fits_the_source(bug: Bug) -> None:
    """Each edit applies, and what comes of it can be compiled."""
    for path, text in apply_edits(bug.edits, SOURCE).items():
        assert text != SOURCE[path]
        if path.suffix == ".py":
            compile(text, path, "exec")


@pytest.mark.parametrize(
    "test", sorted({CONTROL, *(c.test for bug in BUGS for c in bug.caught_by)})
)
def test_a_test_that_catches_a_planted_bug_is_there(test: str) -> None:
    """By its file and its name."""
    file, name = test.split("::")
    assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text()


TEXTS = {
    Path("a.py"): "if a:\n    b = c < d  # planted: border\n    e()\n",
    Path("a.sql"): "select 1\n where a = b  -- planted: fence\n   and c\n",
}


@pytest.mark.parametrize(
    ("edit", "path", "expected"),
    [
        (Delete("fence"), "a.sql", "select 1\n   and c\n"),
        (Before("border", "f()"), "a.py", "if a:\n    f()\n    b = c < d\n    e()\n"),
        (Rewrite("border", " < ", " <= "), "a.py", "if a:\n    b = c <= d\n    e()\n"),
    ],
)
def test_an_edit_changes_the_marked_line(edit: Edit, path: str, expected: str) -> None:
    """The lines around it stay as they are, and so does the indentation."""
    assert apply_edits([edit], TEXTS) == {Path(path): expected}


@pytest.mark.parametrize(
    ("edit", "texts", "expected"),
    [
        (Delete("gone"), TEXTS, "must occur once, not 0 times"),
        (
            Delete("fence"),
            {**TEXTS, Path("b.sql"): TEXTS[Path("a.sql")]},
            "must occur once, not 2 times",
        ),
        (Rewrite("border", " > ", " >= "), TEXTS, "must match  >  once, not 0 times"),
    ],
)
def test_an_edit_without_its_line_is_refused(
    edit: Edit, texts: dict[Path, str], expected: str
) -> None:
    """Else it would be planted nowhere, and the tests that pass would be thought to be blind."""
    with pytest.raises(LookupError, match=expected):
        apply_edits([edit], texts)
