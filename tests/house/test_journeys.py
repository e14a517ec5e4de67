"""Journeys have budgets: a command or a page enters at most so many files and functions of the product."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.house.imports import ROOT

# Files, and functions as measured in November 2026, by journey of scripts/journey.py. A budget is met by not entering
# what is not needed, and is lowered with what is measured.
BUDGETS = {
    "ingest": (80, 681),
    "annotate motion": (104, 526),
    "export": (91, 445),
    "text search": (63, 304),
    "search --where": (43, 167),
    "show": (54, 218),
    "open an episode": (102, 495),
    "Browse": (52, 247),
}
# Functions may grow by this share; a budget that is further above what is entered than this holds nothing.
GROWTH, SLACK = 1.05, 0.8


@pytest.fixture(scope="module")
def counts() -> dict[str, dict[str, int]]:
    """Files and functions of every journey."""
    command = [sys.executable, str(ROOT / "scripts" / "journey.py"), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert not ran.returncode, ran.stderr
    entered: dict[str, dict[str, int]] = json.loads(ran.stdout)
    return entered


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
