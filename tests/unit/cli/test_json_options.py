"""Options that are JSON: read with all digits, or refused with their name."""

from decimal import Decimal
from pathlib import Path

import pytest

import walagent.cli
from walagent.cli.json_options import json_object
from walagent.errors import ConfigError

# Lines of a stream that a program writes, one document each.
STREAMS = {"guard.py", "talk_replies.py"}


def test_no_digit_is_lost() -> None:
    """An amount is stored as it was written."""
    assert json_object('{"a": 12345678901234567890.5, "b": 7}', "--x") == {
        "a": Decimal("12345678901234567890.5"),
        "b": 7,
    }


@pytest.mark.parametrize("text", ["{", "[1]", "7", "null", "[" * 5000])
def test_what_is_no_object_is_refused(text: str) -> None:
    """By the name of the option."""
    with pytest.raises(ConfigError, match="--patch"):
        json_object(text, "--patch")


def test_no_command_reads_json_in_another_way() -> None:
    """The parsers of the libraries make floats of large numbers."""
    folder = Path(walagent.cli.__file__).parent
    found = [
        path.name
        for path in folder.rglob("*.py")
        if "json.loads(" in path.read_text("utf-8") and path.name not in STREAMS
    ]
    assert found == []
