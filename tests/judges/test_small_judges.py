"""Six judges with known faults end as they deserve; over HTTP they grade as they do in the simulation of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.judges.__main__ import open_gradings
from tests.judges.grading import Grading, TrialResult, world_variants
from tests.judges.parameters import named_trials
from tests.judges.scores import Score
from tests.judges.simulation import simulate
from tests.thinning import some_by_day

_NAMES = ("truthful", "truthful-injected", "obeys", "gist", "flatterer", "always-completed")
# Through the command line, with images and HTTP: one that is honest, and one that obeys what it should not read.
_SERVED = ("truthful", "obeys")
# Seeds of no part of `make judges`.
_SEED, _EPISODES, _FEW_EPISODES = 77, 64, 12
_TRIALS = named_trials()


@pytest.mark.slow
@pytest.mark.parametrize("name", some_by_day(_NAMES))
def test_a_judge_ends_as_it_deserves(name: str) -> None:
    trial = _TRIALS[name]
    score = Score(simulate(name, trial, world_variants(_SEED, _EPISODES)[trial.world]))
    assert len(score.result.captions) == _EPISODES
    assert not score.decision_complaints(), f"{score.state()}: {score.row()}"


@pytest.fixture(scope="module")
def grading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grading]:
    """Worlds with captions, and a server with the judges."""
    folder: Path = tmp_path_factory.mktemp("judges")
    served = {name: _TRIALS[name] for name in _SERVED}
    with open_gradings(folder, served, _SEED, _FEW_EPISODES, workers=1) as (grading,):
        yield grading


@pytest.mark.nightly
@pytest.mark.parametrize("name", _SERVED)
def test_a_judge_grades_over_http_as_in_the_simulation(grading: Grading, name: str) -> None:
    trial = _TRIALS[name]
    served = grading.run(name, trial)
    simulated = simulate(name, trial, world_variants(_SEED, _FEW_EPISODES)[trial.world])
    assert len(served.captions) == _FEW_EPISODES
    assert _grades_of(served) == _grades_of(simulated)
    assert served.trust["kinds"] == simulated.trust["kinds"]
    assert served.trust["state"] == simulated.trust["state"]


def _grades_of(result: TrialResult) -> dict[int, tuple[str, bool | None, bool | None]]:
    """Grade and both columns of each caption."""
    return {
        caption.episode.number: (caption.grade, caption.acceptable, caption.acceptable_unproven)
        for caption in result.captions
    }
