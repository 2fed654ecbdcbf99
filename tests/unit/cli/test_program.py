"""How printed commands start."""

import sys
from pathlib import Path

import pytest

from walagent.cli.program import program


@pytest.mark.parametrize(
    ("script", "printed"), [("walagent", "./walagent"), ("bin/walagent", "bin/walagent")]
)
def test_a_shell_finds_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, printed: str
) -> None:
    """A name without a folder is looked for in PATH only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    monkeypatch.delenv("WALAGENT_HOME", raising=False)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / script)])
    assert program() == printed
