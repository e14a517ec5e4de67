"""The page on the architecture lists files that a command really enters."""

from __future__ import annotations

import re

import pytest

from scripts.journey import Entered, measure_journeys
from tests.house.imports import ROOT


@pytest.fixture(scope="module")
def entered() -> dict[str, Entered]:
    """What every journey enters."""
    return measure_journeys()


@pytest.mark.parametrize(
    ("heading", "journeys"), [("a dataset", ["ingest"]), ("a query", ["text search", "search --where"])]
)
def test_the_page_shows_files_that_the_command_enters(
    heading: str, journeys: list[str], entered: dict[str, Entered]
) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition(f"## The journey of {heading}\n")[2].partition("\n## ")[0]
    shown = set(re.findall(r"^\| `([\w/]+\.py)` \|", table, flags=re.M))
    assert len(shown) > 10 and not shown - {file for name in journeys for file in entered[name]}
