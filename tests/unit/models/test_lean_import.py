"""An SDK is imported without what is not used, and is the same SDK all the same."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import pytest

from walagent.models.lean_import import import_lean

BODY = """
from . import plain
from .big import Big as Big, helper as Helper  # both
from .small import (
    Small as Small,  # of a kind
)
__version__ = "1.2"
only_here = [Big]
"""
Make = Callable[..., ModuleType]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make a package with submodules, and import it leanly."""
    name = f"sdk_{uuid4().hex}"
    monkeypatch.syspath_prepend(tmp_path)

    def made(body: str = BODY, **modules: str) -> ModuleType:
        given = {"plain": "", "big": "class Big: ...\ndef helper(): ...", "small": "Small = 7"}
        (tmp_path / name).mkdir()
        for module, text in {**given, **modules, "__init__": body}.items():
            (tmp_path / name / f"{module}.py").write_text(text)
        import_lean(name)
        return import_module(name)

    yield made
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


def imported(package: ModuleType) -> set[str]:
    """Which submodules are imported."""
    start = f"{package.__name__}."
    return {module.removeprefix(start) for module in sys.modules if module.startswith(start)}


def test_a_name_imports_its_submodule_alone(make: Make) -> None:
    """Names in brackets, behind comments and under other names, too."""
    package = make()
    assert imported(package) == set()
    assert package.Small == 7
    assert imported(package) == {"small"}
    assert package.Helper.__name__ == "helper"
    assert package.plain.__name__.endswith(".plain")
    assert imported(package) == {"small", "big", "plain"}
    assert "only_here" not in vars(package)


def test_what_only_the_body_defines_executes_it(make: Make) -> None:
    """And what was imported before stays the same object."""
    package = make()
    big = package.Big
    assert package.only_here == [big]
    assert (package.Big, type(package)) == (big, ModuleType)
    with pytest.raises(AttributeError, match="nothing"):
        _ = package.nothing


def test_names_that_tools_look_for_do_not_execute_the_body(make: Make) -> None:
    """`__version__` does, since the body has it."""
    package = make()
    assert not hasattr(package, "__warningregistry__")
    assert "only_here" not in vars(package)
    assert package.__version__ == "1.2"
    assert "only_here" in vars(package)


def test_an_import_below_other_statements_executes_the_body(make: Make) -> None:
    """It may need what they define, as the clients of the module `openai` do."""
    package = make(
        "from .big import Big\nanswer = 42\nfrom .late import value\n",
        late="from . import answer\nvalue = answer",
    )
    assert package.value == 42


def test_a_package_in_which_a_name_hides_a_submodule_is_executed_at_once(make: Make) -> None:
    """Else an import of the submodule would decide what the name means."""
    package = make("from .small import Small\nfrom .big import small\n", big="small = 'a name'")
    assert imported(package) == {"small", "big"}
    assert package.small == "a name"


def test_a_body_with_an_error_fails_when_it_is_executed(make: Make) -> None:
    """As it would at the import."""
    package = make("from .small import Small\nraise ValueError('no')\n")
    assert package.Small == 7
    with pytest.raises(ValueError, match="no"):
        _ = package.other


@pytest.mark.parametrize("sdk", ["anthropic", "openai"])
def test_every_name_of_an_sdk_is_what_its_body_binds(sdk: str) -> None:
    """Names of the package and of its types, imported one by one and then as usual."""
    code = f"""
from importlib import import_module
from walagent.models.lean_import import _HOMES, _Package, _execute
from walagent.models.registry import find_provider
find_provider({sdk!r}).load()
for name in ({sdk!r}, "{sdk}.types"):
    package = import_module(name)
    assert isinstance(package, _Package), name
    lean = {{name: getattr(package, name) for name in vars(package)[_HOMES]}}
    assert len(lean) > 20, name
    body = vars(_execute(package))
    different = {{name for name, value in lean.items() if body[name] is not value}}
    assert not different, different
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
