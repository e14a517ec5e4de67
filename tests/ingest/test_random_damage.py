"""Damage at random to a file of a dataset of any format: no exception that no rule names, no changed value."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.torture.datasets import WRITERS
from tests.torture.fuzz import Fuzzer

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", WRITERS)
def test_damage_costs_records_in_one_line_each(kind: str, tmp_path: Path) -> None:
    """`make torture` tries the same for hours; a problem is repeated by its seed."""
    seed = secrets.token_hex(4)
    fuzzer = Fuzzer(tmp_path, seed)
    trials = [fuzzer.try_damage(kind, number) for number in range(15)]
    assert not [trial for trial in trials if trial.problem], seed
