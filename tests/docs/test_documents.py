"""The pages lead somewhere, and say of the code what is so."""

import re
from pathlib import Path

import pytest

from components.train.symptoms import RULES
from tests.conftest import ROOT
from tests.docs.commands import PAGES

LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"))
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: there is no such heading"


def test_every_page_of_docs_is_found_from_the_readme() -> None:
    linked = set(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= {link.partition("#")[0] for link in linked}


def test_the_tuning_page_has_every_piece_of_advice() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)` \|", (ROOT / "docs/tuning.md").read_text(encoding="utf-8"))
    assert sorted(rows) == sorted(rule.__name__ for rule in RULES)


def test_the_table_of_mixed_groups_is_right() -> None:
    text = (ROOT / "docs/base-model.md").read_text(encoding="utf-8")
    (header,) = re.findall(r"(?m)^\| p \|(.+)\|$", text)
    chances = [float(cell) for cell in header.split("|")]
    for size, cells in re.findall(r"(?m)^\| mixed groups of (\d+) \|(.+)\|$", text):
        shown = [int(cell.strip().removesuffix(" %")) for cell in cells.split("|")]
        assert shown == [round(100 * (1 - p ** int(size) - (1 - p) ** int(size))) for p in chances]
