"""The command that installs an extra."""

import json
from importlib import metadata

import pytest

from walagent.base import extras


class Installed:
    """A distribution with what pip wrote about its origin."""

    def __init__(self, url: str | None) -> None:
        """Remember the URL."""
        self._url = url

    def read_text(self, name: str) -> str | None:
        """Return `direct_url.json`; None: from an index."""
        assert name == "direct_url.json"
        return None if self._url is None else json.dumps({"url": self._url})


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        (None, "pip install 'walagent[ask]'"),
        ("file:///src/walagent", "pip install '/src/walagent[ask]'"),
        ("file:///a%20b/walagent-0.1.0.whl", "pip install '/a b/walagent-0.1.0.whl[ask]'"),
        ("https://example.com/walagent-0.1.0.whl", "pip install 'walagent[ask]'"),
    ],
)
def test_an_extra_is_installed_from_where_walagent_was(
    url: str | None, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout or a wheel is in no index."""
    monkeypatch.setattr(extras, "distribution", lambda _name: Installed(url))
    assert extras.install_hint("walagent[ask]") == hint


def test_without_metadata_it_is_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a source tree on PYTHONPATH."""

    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", missing)
    assert extras.install_hint("walagent[local]") == "pip install 'walagent[local]'"
