"""walagent: agents that live on your PostgreSQL tables and run on what the WAL says.

Rows are committed, the WAL reader sees them, attached agents run step by step, and what they
do is written back once.  `ARCHITECTURE.md` tells the way of the data.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walagent.client import AsyncClient, Client, Options
    from walagent.supervisor import CoordinationPattern, Supervisor

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "Client",
    "CoordinationPattern",
    "Options",
    "Supervisor",
    "__version__",
]

_HOMES = {
    "AsyncClient": "walagent.client",
    "Client": "walagent.client",
    "CoordinationPattern": "walagent.supervisor",
    "Options": "walagent.client",
    "Supervisor": "walagent.supervisor",
}


def __getattr__(name: str) -> object:
    """Import the library when it is asked for: the daemon and the command line are quicker so."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
