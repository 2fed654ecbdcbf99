"""Every page can be reached, and every link in it leads somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs_pages import ROOT, anchors, pages, prose

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
WIDEST = 125  # wrapped at 120; what cannot be broken may stick out
FORBIDDEN = re.compile(r"/work/|/root/|/tmp/walagent-test|pypi\.org|/shared/", re.IGNORECASE)
ABSOLUTE = ("http://", "https://", "mailto:")

PAGES = pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))


def _links(page: Path) -> Iterator[tuple[Path, str]]:
    """Links to our own files: where each leads, and the anchor."""
    for target in LINK.findall(prose(page)):
        if not target.startswith(ABSOLUTE):
            path, _, anchor = target.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


@PAGES
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    """A moved file or a renamed heading is noticed here."""
    for target, anchor in _links(page):
        assert target.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {target.name}#{anchor}"


def test_every_page_is_reached_from_the_readme() -> None:
    """No page is written and then forgotten."""
    seen, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        waiting.extend(target for target, _ in _links(page))
    assert {page for page in pages() if page not in seen} == set()


@PAGES
def test_lines_fit_the_page(page: Path) -> None:
    """Prose is wrapped; a table's row cannot be."""
    for number, line in enumerate(prose(page).splitlines(), 1):
        assert len(line) <= WIDEST or line.lstrip().startswith("|"), f"{page.name}:{number}"


@PAGES
def test_no_page_names_a_place_of_one_machine(page: Path) -> None:
    """What is written is true on every machine."""
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        assert not FORBIDDEN.search(line), f"{page.name}:{number}"
