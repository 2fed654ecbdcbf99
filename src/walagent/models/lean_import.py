"""Import an SDK without the parts that are not used.

The packages of an SDK import every type of its API, which takes up to a second.  After
`import_lean` the body of such a package is not executed.  A name of it is imported from the
submodule that the body imports it from; a name that is not found this way executes the body.  So
every name means what it means otherwise, also to other code of the process.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType

# Lines at the left margin, such as `from .batch import Batch as Batch`; names may be in brackets.
_IMPORT = re.compile(r"^from (\.[\w.]+) import (?:\(([^)]*)\)|([^\n(]+))", re.MULTILINE)
# The first other statement.  An import below it may need what it defines.
_OTHER = re.compile(r"^(?!from |import |#|\)|\"\"\"|\s)", re.MULTILINE)


def import_lean(package: str, *parts: str) -> None:
    """Import a package leanly from now on; one that is imported already stays as it is.

    Args:
        parts: packages in it that are lean too, and those in them.  Not for one whose import may
            fail: that would be noticed too late.
    """
    _finder.packages.add(package)
    _finder.parts.update(f"{package}.{part}" for part in parts)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _Finder(MetaPathFinder):
    """Finds modules as usual, and gives packages of an SDK the loader below."""

    def __init__(self) -> None:
        self.packages = set[str]()
        self.parts = set[str]()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        part = ".".join(fullname.split(".", 2)[:2])
        if fullname not in self.packages and part not in self.parts:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.submodule_search_locations is not None:
            match spec.loader:
                case SourceFileLoader() as found:
                    spec.loader = _Loader(found.name, found.path)
                case _:  # from an archive, or without a body
                    pass
        return spec


_finder = _Finder()


class _Loader(SourceFileLoader):
    """Leaves a package's body for later, unless a name in it hides a submodule."""

    def exec_module(self, module: ModuleType) -> None:
        source = self.get_data(self.path).decode()
        homes = _homes(source)
        if homes.keys() & {home.lstrip(".").partition(".")[0] for home, _ in homes.values()}:
            super().exec_module(module)
            return
        module.__class__ = _Package
        vars(module).update({_HOMES: homes, _SOURCE: source})


_HOMES, _SOURCE = "__walagent_homes__", "__walagent_source__"


class _Package(ModuleType):
    """A package whose body has not been executed."""

    def __getattr__(self, name: str) -> object:
        homes: Mapping[str, tuple[str, str]] = vars(self)[_HOMES]
        if name in homes:
            home, original = homes[name]
            value = getattr(import_module(home, self.__name__), original)
            setattr(self, name, value)
            return value
        if name.startswith("__"):
            if name not in vars(self)[_SOURCE]:  # tools look for such names in every module
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        elif find_spec(f"{self.__name__}.{name}") is not None:
            return import_module(f"{self.__name__}.{name}")
        return getattr(_execute(self), name)


def _execute(package: ModuleType) -> ModuleType:
    """Execute the body of a package; until it ends, the package is like any that is imported."""
    package.__class__ = ModuleType
    assert package.__spec__ is not None  # noqa: S101 - the import system has set it
    loader = package.__spec__.loader
    assert isinstance(loader, _Loader)  # noqa: S101 - it has made the package
    SourceFileLoader.exec_module(loader, package)
    return package


def _homes(source: str) -> dict[str, tuple[str, str]]:
    """Find for each name that a body begins by importing its submodule and its name there."""
    other = _OTHER.search(source)
    return {
        words[-1]: (found[1], words[0])
        for found in _IMPORT.finditer(source, 0, other.start() if other else len(source))
        for item in (found[2] or found[3]).split(",")
        if (words := item.partition("#")[0].split()) and words != ["*"]
    }
