"""Two datasets of one robot: whatever convention differs between them is refused or asked about, two halves never."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from ares.contract import (
    DatasetKey,
    LayoutContract,
    collect_contract_evidence,
    find_clashes,
    infer_contract,
)
from ares.signals import EpisodeSignals
from tests.generators.merged_sources import recorded_halves
from tests.generators.two_sources import PLANTED, RATE_HZ, Recorded, TwoSources, two_sources
from tests.thinning import some_by_day


def layout_of(name: str, recorded: Recorded) -> LayoutContract:
    evidence = [
        collect_contract_evidence(
            EpisodeSignals(
                episode_id=f"{name}{number}",
                seconds=np.arange(len(state)) / RATE_HZ,
                state=state,
                action=action,
                state_names=recorded.names,
                action_names=recorded.names,
                rate_hz=RATE_HZ,
            )
        )
        for number, (state, action) in enumerate(zip(recorded.states, recorded.actions, strict=True))
    ]
    known = [part for part in evidence if part is not None]
    return LayoutContract(
        key=DatasetKey("made", name, ""),
        state_names=recorded.names,
        action_names=recorded.names,
        num_episodes=len(recorded.states),
        contract=infer_contract(name, recorded.names, recorded.names, known),
    )


def clashes(first: Recorded, second: Recorded) -> list[str]:
    return list(map(str, find_clashes([layout_of("one", first), layout_of("two", second)])))


def pairs(planted: str) -> Iterator[tuple[int, TwoSources]]:
    """Seeds and pairs of which the second is a copy, or another recording of its task, but for what is planted."""
    drawn = ((seed, two_sources(seed)) for seed in range(2_000))
    return (
        (seed, pair) for seed, pair in drawn if pair.planted == planted and pair.base in ("copy", "same task")
    )


@pytest.mark.parametrize("kind", some_by_day(PLANTED, 2))
def test_a_planted_difference_is_refused(kind: str) -> None:
    assert not [seed for seed, pair in islice(pairs(kind), 2) if not clashes(pair.first, pair.second)]


def test_two_honest_recordings_of_one_task_do_not_clash() -> None:
    found = {seed: clashes(pair.first, pair.second) for seed, pair in islice(pairs(""), 4)}
    assert not any(found.values()), found


def test_a_joint_that_is_called_base_is_exchanged_with_another() -> None:
    """Its name makes it a separate kind."""
    _, pair = next(pairs("exchanged"))
    names = list(pair.first.names)
    names[pair.dimensions[0]] = "base"
    first, second = (replace(recorded, names=tuple(names)) for recorded in (pair.first, pair.second))
    assert {clash.name for clash in find_clashes([layout_of("one", first), layout_of("two", second)])} == {
        "exchanged"
    }


@pytest.mark.parametrize("seed", [8002, 8050, 8104])
def test_joints_that_move_alike_in_halves_of_one_dataset_are_not_exchanged(seed: int) -> None:
    """By chance another order fits the states of these better, and not their actions."""
    assert not clashes(*recorded_halves(np.random.default_rng([seed, 77])))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["", *PLANTED])
def test_of_many_pairs_hardly_one_is_told_wrongly(kind: str) -> None:
    """An offset may be as small as what two recordings of a task differ by."""
    wrong = [
        seed for seed, pair in islice(pairs(kind), 60) if bool(clashes(pair.first, pair.second)) != bool(kind)
    ]
    assert len(wrong) <= (2 if kind == "offset" else 0), wrong
