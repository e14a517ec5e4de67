"""Results of policies are added once, and two policies are compared over pairs of trials."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ares.errors import RequestError
from ares.evaluation import (
    Comparison,
    Trial,
    add_results,
    compare_trials,
    read_trials,
    rules_out,
)
from ares.workspace import Workspace
from tests.workspaces import CommandResult


def _write(path: Path, *lines: str, header: str = "policy,set,task,start,success") -> Path:
    path.write_text("\n".join((header, *lines, "")))
    return path


def _compare(
    first: list[tuple[str, str, float]], second: list[tuple[str, str, float]], planned: float = 0.15
) -> Comparison:
    sides = [[Trial(name, *trial) for trial in trials] for name, trials in (("a", first), ("b", second))]
    return compare_trials(("a", "b"), sides[0], sides[1], planned)


def test_trials_of_equal_starts_are_pairs_and_others_are_paired_in_order() -> None:
    by_start = [("lift", str(start), float(start % 2)) for start in range(10)]
    moved = [("lift", str(start), float(start % 2)) for start in reversed(range(5, 15))]
    compared = _compare(
        [*by_start, ("pour", "", 1), ("pour", "", 1), ("x", "", 0)], [*moved, ("pour", "", 0)]
    )
    lift, pour = compared.tasks
    assert (lift.pairs, lift.is_by_start, lift.difference.mean) == (5, True, 0)
    assert (pour.pairs, pour.is_by_start, pour.difference.mean) == (1, False, 1)
    assert (compared.pairs, compared.left_out, compared.wins) == (6, (7, 5), (1, 0))


def test_a_clear_difference_is_decided_and_a_small_one_ruled_out() -> None:
    good, bad = [("lift", "", 1.0)] * 30, [("lift", "", float(number % 4 == 0)) for number in range(30)]
    compared = _compare(bad, good)
    assert compared.verdict == "decided: b is better" and compared.difference.high < 0
    assert compared.tasks[0].success[1].low > 0.7
    mixed = [("lift", str(number), float(number % 3 == 0)) for number in range(200)]
    assert _compare(mixed, mixed).verdict == "not decided; a difference of 0.15 is ruled out"
    assert _compare(good[:5], bad[:5]).verdict.startswith("not decided; about ")
    with pytest.raises(RequestError, match=r"between 0 and 1"):
        _compare(good, bad, 1.5)


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_looks_after_every_trial_are_wrong_in_few_samples(rate: float) -> None:
    rng = np.random.default_rng(20)
    wrong = 0
    for _ in range(150):
        values = np.subtract(*(rng.random((2, 200)) < rate).astype(float))
        wrong += any(rules_out(values[:count], 0.0) for count in range(5, 201, 5))
    assert wrong <= 11  # 150 times .05 are 7.5; more than 11 come in 8 % of draws at exactly .05


def test_an_interval_of_scores_holds_their_mean() -> None:
    scores = np.random.default_rng(3).beta(4, 2, (100, 60))
    held = [
        compared.difference.low < 2 / 3 < compared.difference.high
        for row in scores
        for compared in [_compare([("t", "", value) for value in row], [("t", "", 0.0)] * 60)]
    ]
    assert sum(held) >= 95


def test_a_file_is_added_once_also_when_it_has_grown(ws: Workspace, tmp_path: Path) -> None:
    path = _write(tmp_path / "r.csv", "a,,lift,1,true", "a,,lift,2,maybe", "b,,lift,1,0")
    log = ws.stores.annotations
    added = add_results(log, path)
    assert (added.added, len(added.bad)) == (2, 1)
    assert added.bad[0].startswith("line 3: success: ") and "got 'maybe'" in added.bad[0]
    again = add_results(log, path)
    assert (again.added, again.known, again.action) == (0, 2, 0)
    _write(path, "a,,lift,1,true", "a,,lift,2,false", "b,,lift,1,0", "b,,lift,2,1")
    grown = add_results(log, path)
    assert (grown.added, grown.known, add_results(log, path).added) == (2, 2, 0)
    assert [len(trials) for trials in read_trials(log).values()] == [2, 2]
    ws.undo(1)
    assert [len(trials) for trials in read_trials(log).values()] == [1, 1]


def test_policies_are_compared_with_the_sets_that_they_were_trained_on(
    video_ws: Workspace, tmp_path: Path, run_ares: Callable[..., CommandResult]
) -> None:
    ids = [episode.episode_id for episode in video_ws.episodes]
    video_ws.sets.create("all", ids)
    video_ws.sets.create("few", ids[:1]).write_lock(tmp_path / "few.json")
    rows = [f"act-all,all,lift,{start},{start % 2}" for start in range(6)]
    rows += [f"act-few,{tmp_path / 'few.json'},lift,{start},true" for start in range(6)]
    path = _write(tmp_path / "r.csv", *rows, "act-few,gone,lift,9,true", ",,lift,9,1", "act-x,,lift,2,")
    added = run_ares("evaluate", "add", path, "-w", video_ws.path)
    assert added.status == 1 and "added: 12 trials; `ares undo 1`" in added.out
    assert "no set 'gone'" in added.out and "line 16: the trial has no result" in added.out
    assert "not used: 3 rows" in added.out
    video_ws.sets.rename("few", "one")
    compare = ("evaluate", "compare", "act-few", "act-all", "-w", video_ws.path)
    document = run_ares(*compare, "--json").json
    datasets = document["sets"]["dataset"].values()
    assert [sum(counts) for counts in zip(*datasets, strict=True)] == [0, len(ids) - 1]
    assert (document["pairs"], document["wins"], document["difference"]["mean"]) == (6, [3, 0], 0.5)
    text = run_ares(*compare, "--difference", ".3").out
    assert "would decide a difference of 0.3" in text and "only in that of act-all" in text
    unknown = run_ares("evaluate", "compare", "act", "act-all", "-w", video_ws.path)
    assert unknown.status == 2 and "act-few" in unknown.err
