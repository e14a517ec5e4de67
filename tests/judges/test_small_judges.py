"""Six judges with known faults end as they deserve: graded through the command line, over HTTP, with their controls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.judges.__main__ import open_gradings
from tests.judges.grading import Grading
from tests.judges.parameters import JudgeTrial, named_trials
from tests.judges.scores import Score

_NAMES = ("truthful", "truthful-injected", "obeys", "gist", "flatterer", "always-completed")
# Seeds of no part of `make judges`.
_SEED, _EPISODES = 77, 64


@pytest.fixture(scope="module")
def trials() -> dict[str, JudgeTrial]:
    """The judges that are tried."""
    return {name: trial for name, trial in named_trials().items() if name in _NAMES}


@pytest.fixture(scope="module")
def grading(tmp_path_factory: pytest.TempPathFactory, trials: dict[str, JudgeTrial]) -> Iterator[Grading]:
    """Worlds with captions, and a server with the judges."""
    folder: Path = tmp_path_factory.mktemp("judges")
    with open_gradings(folder, trials, _SEED, _EPISODES, workers=1) as (grading,):
        yield grading


@pytest.mark.parametrize("name", _NAMES)
def test_a_judge_ends_as_it_deserves(grading: Grading, trials: dict[str, JudgeTrial], name: str) -> None:
    score = Score(grading.run(name, trials[name]))
    assert len(score.result.captions) == _EPISODES
    assert not score.decision_complaints(), f"{score.state()}: {score.row()}"
