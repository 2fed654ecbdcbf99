"""Types as users of the library see them, and one list of its names."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import walagent

USER = Path(__file__).with_name("typed_user.py")
PACKAGE = Path(walagent.__file__)


def test_user_code_is_checked_with_the_types_that_are_promised(tmp_path: Path) -> None:
    """In a project of its own, in strict mode, against the package that is imported here."""
    (tmp_path / "user.py").write_text(USER.read_text())
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "strict", "extraPaths": [str(PACKAGE.parents[1])]})
    )
    command = [sys.executable, "-m", "basedpyright", "--project", str(tmp_path)]
    checked = subprocess.run(
        [*command, "--pythonpath", sys.executable], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_the_lists_of_exports_agree() -> None:
    """A name is in `__all__`, in the imports for type checkers, and can be imported."""
    imports = next(node for node in ast.parse(PACKAGE.read_text()).body if isinstance(node, ast.If))
    typed = {
        (name.name, line.module)
        for line in imports.body
        if isinstance(line, ast.ImportFrom)
        for name in line.names
    }
    assert typed == set(walagent._HOMES.items())  # noqa: SLF001
    assert {name for name, _ in typed} | {"__version__"} == set(walagent.__all__)
    for name in walagent.__all__:
        assert getattr(walagent, name) is not None
