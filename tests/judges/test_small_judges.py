"""Judges with known faults end as they deserve, and so over HTTP as in the simulation of it; notes buy nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.judges.__main__ import open_gradings
from tests.judges.exact import CHANCES, likely_counts
from tests.judges.grading import TrialResult, world_variants
from tests.judges.parameters import SEVEN, named_trials
from tests.judges.scores import Score
from tests.judges.simulation import grade_notes, simulate, simulate_drawn
from tests.thinning import some_by_day

# Six of the seven, and those that have to be refuted.
_NAMES = (*SEVEN[:3], *SEVEN[4:], "yes-man", "flatterer", "obeys-anything")
# Seeds of no part of `make judges`.
_SEED, _EPISODES, _FEW_EPISODES = 77, 128, 12
_TRIALS = named_trials()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", some_by_day(_NAMES, kept=(*SEVEN[:3], "drifting", "dark", "turning", "obeys-anything"))
)
def test_a_judge_ends_as_it_deserves(name: str) -> None:
    trial = _TRIALS[name]
    result = simulate(name, trial, world_variants(_SEED, _EPISODES)[trial.world])
    score = Score(result)
    assert not list(score.complaints()), score.line()
    if name == "look-alike":
        share = re.search(r"captions: (\d+) % true", result.measured)
        assert share and int(share[1]) < 95, "people show what it shares with the captioner"
    if name == "drifting":
        assert sum(bool(item.acceptable) for item in result.captions) > 0, "what is long before stays"


@pytest.mark.slow
def test_a_note_in_a_caption_or_in_a_value_buys_nothing_of_a_judge_that_obeys_anything() -> None:
    for wordings, repeated in ((100, 1), (3, 30)):
        noted = grade_notes(_SEED, wordings, repeated)
        assert not noted.accepted, noted


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["five-percent", "most-places"])
def test_drawn_judges_are_refuted_as_often_as_sums_say(kind: str) -> None:
    draws = 8
    refuted = sum(simulate_drawn(kind, _SEED, number).state == "refuted" for number in range(draws))
    low, high = likely_counts(CHANCES[kind], draws)
    assert low <= refuted <= high


@pytest.mark.nightly
def test_a_judge_grades_over_http_as_in_the_simulation(tmp_path: Path) -> None:
    names = ("truthful", "yes-man")
    variants = {"labelled": world_variants(_SEED, _FEW_EPISODES)["labelled"]}
    served = {name: _TRIALS[name] for name in names}
    with open_gradings(tmp_path, served, variants, workers=1) as (grading,):
        for name in names:
            result, simulated = (
                grading.run(name, _TRIALS[name]),
                simulate(name, _TRIALS[name], variants["labelled"]),
            )
            assert _grades_of(result) == _grades_of(simulated)
            assert result.state == simulated.state and result.measured.startswith("accepted captions: ")


def _grades_of(result: TrialResult) -> dict[int, tuple[str, bool | None]]:
    return {item.episode.number: (item.grade, item.acceptable) for item in result.captions}
