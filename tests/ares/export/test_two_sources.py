"""Two datasets of one robot are one export only where they agree: what differs is refused, honest copies are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.main import main
from tests.generators.two_sources import TwoSources, two_sources, write_recorded
from tests.thinning import some_by_day


def status_of(pair: TwoSources, folder: Path) -> int:
    """Exit status of `ares export` for a set of two drawn sources."""
    sources = [write_recorded(folder / "first", pair.first), write_recorded(folder / "second", pair.second)]
    workspace, out = str(folder / "ws"), folder / "out"
    assert main(["ingest", *map(str, sources), "-w", workspace]) == 0
    assert main(["set", "create", "mix", "-w", workspace]) == 0
    status = main(["export", "mix", str(out), "--format", "lerobot", "-w", workspace])
    assert out.exists() == (status == 0), "a refusal writes nothing"
    return status


def seeds(planted: bool, base: str, count: int) -> list[int]:
    """The first seeds of pairs of one kind."""
    pairs = ((seed, two_sources(seed)) for seed in range(2_000, 2_400))
    found = (seed for seed, pair in pairs if bool(pair.planted) == planted and pair.base == base)
    return [next(found) for _ in range(count)]


_PLANTED = [*seeds(True, "same task", 6), *seeds(True, "copy", 8)]


@pytest.mark.parametrize("seed", some_by_day(_PLANTED, 6))
def test_a_planted_difference_is_refused(seed: int, tmp_path: Path) -> None:
    pair = two_sources(seed)
    assert status_of(pair, tmp_path) == 2, f"{pair.planted} {pair.detail}"


@pytest.mark.parametrize(
    "seed",
    some_by_day(
        [
            *seeds(False, "copy", 1),
            *seeds(False, "same task", 1),
            *seeds(False, "other task", 1),
            *seeds(False, "few episodes", 1),
        ],
        2,
    ),
)
def test_an_honest_copy_is_merged(seed: int, tmp_path: Path) -> None:
    assert status_of(two_sources(seed), tmp_path) == 0
