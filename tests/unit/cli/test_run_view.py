"""What `walagent show` says of a step."""

from walagent.cli.runs.run_view import step_lines


def test_a_row_that_was_left_out_shows_what_it_has_paid() -> None:
    """And why it is asked again."""
    content = {"alone": True, "rows": 4, "why": "no answer", "registered": "m", "model": "m-1"}
    step = {
        "seq": 0,
        "kind": "note",
        "content": content,
        "tokens": 120,
        "cost": 0.25,
        "duration_ms": 7,
    }
    first, second = step_lines({"steps": [step]})
    assert first.split() == ["0", "note,", "120", "tokens,", "$0.25,", "7", "ms"]
    assert second.strip() == "asks alone instead of with 3 other rows: no answer"
