"""The modules that a process imported, from what `python -X importtime` writes."""

from collections.abc import Sequence


def imports(stderr: str) -> Sequence[str]:
    """Name the modules in the order in which their imports ended."""
    lines = (line for line in stderr.splitlines() if line.startswith("import time:"))
    return [line.rpartition("|")[2].strip() for line in lines]
