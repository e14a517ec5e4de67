"""Journeys have budgets: a command or a page enters at most so many files and functions of the product."""

from __future__ import annotations

import re

import pytest

from scripts.journey import Entered, count_entered, measure_journeys
from tests.house.imports import ROOT

# Files, and functions as measured in November 2026, by journey of scripts/journey.py. A budget is met by not entering
# what is not needed, and is lowered with what is measured. Five were raised by a few functions, and by no file, when a
# row got the trust in its judge, and a maker was shown only where it covers what the shown one covers; ingest and
# export once more when datasets of a set were laid over each other; the two pages when the server held clicks back
# until the reactions to the last one had run, and lists, counts and captions were kept by version of the tables,
# and again when their header found things by name and told of jobs and of what others had changed, and two episodes
# were compared. A text search got those of scores that are absolute.
BUDGETS = {
    "ingest": (80, 692),
    "annotate motion": (62, 556),
    "export": (58, 452),
    "text search": (42, 326),
    "search --where": (28, 181),
    "show": (36, 224),
    "open an episode": (66, 533),
    "Browse": (31, 259),
}
# Functions may grow by this share; a budget that is further above what is entered than this holds nothing.
GROWTH, SLACK = 1.05, 0.8


@pytest.fixture(scope="module")
def entered() -> dict[str, Entered]:
    """What every journey enters."""
    return measure_journeys()


@pytest.fixture(scope="module")
def counts(entered: dict[str, Entered]) -> dict[str, dict[str, int]]:
    """Files and functions of every journey."""
    return {journey: count_entered(files) for journey, files in entered.items()}


def test_a_journey_keeps_its_budget(counts: dict[str, dict[str, int]]) -> None:
    beyond = {
        journey: counts[journey]
        for journey, (files, functions) in BUDGETS.items()
        if counts[journey]["files"] > files or counts[journey]["functions"] > functions * GROWTH
    }
    assert not beyond, "scripts/journey.py --list JOURNEY lists the files"


def test_a_budget_is_lowered_with_its_journey(counts: dict[str, dict[str, int]]) -> None:
    assert counts.keys() == BUDGETS.keys()
    loose = {
        journey: counts[journey]
        for journey, (files, functions) in BUDGETS.items()
        if counts[journey]["files"] < files * SLACK or counts[journey]["functions"] < functions * SLACK
    }
    assert not loose


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
