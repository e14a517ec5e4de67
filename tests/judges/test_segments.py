"""A judge that sees one slot in twenty wrongly tells the caption of a segment from that of its neighbour."""

from __future__ import annotations

import pytest

from ares.rubric import Verdict
from tests.judges.parameters import JudgeParameters
from tests.judges.segments import draw_episodes, judge_segments

# A seed of no part of benchmarks/RESULTS.md.
_SEED, _EPISODES = 77, 40


@pytest.mark.slow
def test_captions_of_neighbours_are_not_accepted_and_true_ones_are() -> None:
    judge = JudgeParameters(seed=_SEED, errors={"all": 0.05})
    results = judge_segments(judge, draw_episodes(_SEED, _EPISODES))
    foreign, true = ([item for item in results if item.is_neighbours == own] for own in (True, False))
    assert min(len(foreign), len(true)) > 100
    assert sum(item.is_accepted for item in foreign) / len(foreign) <= 0.01
    assert sum(item.verdict is Verdict.UNMET for item in foreign) / len(foreign) >= 0.80
    assert sum(item.is_accepted for item in true) / len(true) >= 0.85
    assert sum(item.verdict is Verdict.UNMET for item in true) / len(true) <= 0.05


def test_a_judge_without_eyes_refuses_no_more_of_either() -> None:
    judge = JudgeParameters(seed=_SEED, observes="nothing")
    results = judge_segments(judge, draw_episodes(_SEED, 5))
    assert {item.verdict for item in results} == {Verdict.UNSURE}
    assert not any(item.is_accepted for item in results)
