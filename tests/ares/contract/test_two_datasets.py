"""Two datasets of one robot: whatever convention differs between them is refused or asked about, two halves never."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.contract import (
    DatasetKey,
    LayoutContract,
    collect_contract_evidence,
    find_clashes,
    infer_contract,
)
from ares.signals import EpisodeSignals
from tests.generators.merged_sources import recorded_halves
from tests.generators.two_sources import RATE_HZ, Recorded

Array = NDArray[Any]


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


# What is done to a (T, D) array of a robot whose fingers, and their largest values, are known.
CHANGES: dict[str, Callable[[Array, Array, Array], Array]] = {
    "other unit": lambda rows, is_finger, top: np.where(is_finger, rows, np.degrees(rows)),
    "other sign": lambda rows, is_finger, top: rows * np.r_[-1, np.ones(rows.shape[1] - 1)],
    "inverted gripper": lambda rows, is_finger, top: np.where(is_finger, top - rows, rows),
    "gripper in percent": lambda rows, is_finger, top: np.where(is_finger, rows / top * 100, rows),
    "exchanged joints": lambda rows, is_finger, top: rows[:, [1, 0, *range(2, rows.shape[1])]],
}


def halves(seed: int) -> tuple[Recorded, Recorded]:
    return recorded_halves(np.random.default_rng([seed, 77]))


def clashes_of_changed(seed: int, change: str) -> list[str]:
    """What is refused of two halves of a dataset, the second of them changed."""
    first, second = halves(seed)
    is_finger = np.array(["gripper" in name or "hand" in name for name in first.names])
    top = np.max([rows.max(axis=0) for rows in first.actions], axis=0)
    return clashes(first, second.mapped(lambda rows: CHANGES[change](rows, is_finger, top)))


@pytest.mark.parametrize("change", CHANGES)
def test_a_planted_difference_is_refused(change: str) -> None:
    assert clashes_of_changed(2, change)


def test_two_halves_of_one_dataset_do_not_clash() -> None:
    assert not {seed: told for seed in range(2) if (told := clashes(*halves(seed)))}


def test_a_joint_that_is_called_base_is_exchanged_with_another() -> None:
    """Its name makes it a separate kind."""
    first, second = halves(1)
    names = ("base", *first.names[1:])
    exchanged = second.mapped(lambda rows: CHANGES["exchanged joints"](rows, rows, rows))
    layouts = [
        layout_of(name, replace(part, names=names)) for name, part in (("one", first), ("two", exchanged))
    ]
    assert {clash.name for clash in find_clashes(layouts)} == {"exchanged"}


@pytest.mark.parametrize("seed", [8002, 8050, 8104])
def test_joints_that_move_alike_in_halves_of_one_dataset_are_not_exchanged(seed: int) -> None:
    """By chance another order fits the states of these better, and not their actions."""
    assert not clashes(*halves(seed))


@pytest.mark.nightly
@pytest.mark.parametrize("change", CHANGES)
def test_of_60_planted_differences_hardly_one_is_left_to_a_person(change: str) -> None:
    """A joint that moves alike on both sides of zero could be turned in silence: see test_agreement."""
    assert len([seed for seed in range(60) if not clashes_of_changed(seed, change)]) <= 6


@pytest.mark.nightly
def test_none_of_300_halves_clash() -> None:
    assert not {seed: told for seed in range(300) if (told := clashes(*halves(seed)))}
