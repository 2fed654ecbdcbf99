"""The net change of each row of a step, and what cannot be known."""

from typing import Any

import pytest

from walagent.deciders.revert import summary
from walagent.deciders.revert_plan import net_changes, revert_steps


def change(op: str, key: int | None, **given: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return a change of a row, as the database has it."""
    named = {"id": str(key)} if key is not None else None
    before = {"id": str(key), "a": "old"} if op != "insert" else None
    after = {"id": str(key), "a": "new"} if op != "delete" else None
    return {
        "commit_lsn": "0/1", "step": 1, "relation": 5, "table": "public.t", "op": op, "key": named,
        "old_key": None, "before": before, "after": after, "omitted": [], "numbers": {"id": 1},
        "later": None, **given,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ([change("insert", 1), change("update", 1)], ["insert"]),
        ([change("insert", 1), change("delete", 1)], []),
        ([change("update", 1), change("delete", 1)], ["delete"]),
        ([change("delete", 1), change("insert", 1)], ["update"]),
        ([change("delete", 1), change("insert", 1), change("delete", 1)], ["delete"]),
        ([change("update", 1, before={"id": "1", "a": "new"})], []),
        ([change("insert", 1), change("insert", 2)], ["insert", "insert"]),
    ],
)
def test_changes_of_one_row_are_one(changes: list[dict[str, Any]], found: list[str]) -> None:
    """From what was there before the first to what is there after the last."""
    assert [entry["op"] for entry in net_changes(changes)] == found


def test_a_row_is_followed_when_its_key_changes() -> None:
    """Another row that gets the old key is another row."""
    moved = change("update", 2, old_key={"id": "1"}, before={"id": "1", "a": "old"})
    again = change("update", 2, before={"id": "2", "a": "new"}, after={"id": "2", "a": "newer"})
    second, first = net_changes([moved, change("insert", 1), again])
    assert (first["key"], first["key_after"]) == ({"id": "1"}, {"id": "2"})
    assert (first["before"]["a"], first["after"]["a"]) == ("old", "newer")
    assert (second["op"], second["key_after"]) == ("insert", {"id": "1"})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (change("truncate", None), "TRUNCATE"),
        (change("more", None), "not all rows"),
        (change("update", 1, relation=None), "dropped"),
        (change("update", None), "primary key"),
        (change("update", 1, before=None), "not known"),
        (change("update", 1, before={"id": "1"}), "not known"),
        (change("insert", 1, omitted=["secret"]), "secret"),
        (change("delete", 1, omitted=["a"]), "not known"),
        (change("update", 1, later=[{"run": 9, "op": "update", "columns": ["a"]}]), "run 9"),
        (change("update", 1, later=[{"run": 9, "op": "update", "columns": None}]), "run 9"),
        (change("update", 1, later=[{"run": 9, "op": "delete", "columns": None}]), "run 9"),
    ],
)
def test_what_cannot_be_known_is_refused(given: dict[str, Any], reason: str) -> None:
    """By a reason in the entry."""
    (entry,) = net_changes([given])
    assert reason in entry["refuse"]


@pytest.mark.parametrize(
    "given",
    [
        change("update", 1, omitted=["secret"]),
        change("update", 1, later=[{"run": 9, "op": "update", "columns": ["b"]}]),
    ],
)
def test_columns_of_others_do_not_matter(given: dict[str, Any]) -> None:
    """Nor those that are not recorded: they stay as they are."""
    (entry,) = net_changes([given])
    assert "refuse" not in entry


def test_the_last_step_is_undone_first() -> None:
    """Steps that changed nothing in the end are left out."""
    first, last = change("insert", 1), change("update", 1, commit_lsn="0/2", step=3)
    nothing = [change(op, 2, commit_lsn="0/3", step=5) for op in ("insert", "delete")]
    assert [step["step"] for step in revert_steps([first, last, *nothing])] == [3, 1]


def test_a_summary_names_some_of_the_rows() -> None:
    """Those that were refused."""
    row = {"table": "public.t", "key": {"id": "1"}, "outcome": "refused", "reason": "changed since"}
    result = {"run": 7, "steps": [{"done": False, "rows": [row] * 5}]}
    assert summary(result) == (
        "nothing of run 7 was taken back: "
        + "; ".join(["public.t 1: changed since"] * 3)
        + "; and 2 more"
    )
