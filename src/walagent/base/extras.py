"""How an extra of walagent is installed: from where walagent itself was installed."""

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit


def install_hint(requirement: str) -> str:
    """Return the command that installs a requirement such as ``walagent[ask]``."""
    if requirement.startswith("walagent["):
        requirement = requirement.replace("walagent", _installed_from(), 1)
    return f"pip install {shlex.quote(requirement)}"


def _installed_from() -> str:
    """Return the folder or the wheel that pip installed, or the name in an index."""
    try:
        written = distribution("walagent").read_text("direct_url.json")
        url = urlsplit(json.loads(written)["url"] if written else "")
    except (PackageNotFoundError, ValueError, KeyError, TypeError):
        return "walagent"
    return unquote(url.path) if url.scheme == "file" else "walagent"
