"""Two sources agree where nothing differs and a difference would have shown; of the rest a person is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.contract import Agreement, compare_sources
from ares.signals import EpisodeSignals
from tests.generators.merged_sources import SIGNAL_KINDS, RecordedHalf, recorded_sources
from tests.thinning import some_by_day

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator], tuple[Array, Array]]
NAMES = ("pan", "lift", "roll", "gripper")
RATE_HZ = 30.0


def episodes_of(
    pairs: Sequence[tuple[Array, Array]], names: Sequence[str], tasks: Sequence[str] = ()
) -> list[EpisodeSignals]:
    """Episodes with these states and actions."""
    return [
        EpisodeSignals(
            episode_id=str(number),
            seconds=np.arange(len(state)) / RATE_HZ,
            state=state,
            action=action,
            state_names=tuple(names),
            action_names=tuple(names),
            rate_hz=RATE_HZ,
            task=tasks[number] if tasks else "",
        )
        for number, (state, action) in enumerate(pairs)
    ]  # fmt: skip


def drawn(half: RecordedHalf) -> list[EpisodeSignals]:
    recorded = half.recorded
    pairs = list(zip(recorded.states, recorded.actions, strict=True))
    return episodes_of(pairs, recorded.names, [str(task) for task in half.tasks])


def compare(first: Sequence[EpisodeSignals], second: Sequence[EpisodeSignals]) -> Agreement:
    return compare_sources(first, second, ("first", "second"))


@pytest.mark.parametrize("kind", some_by_day(SIGNAL_KINDS, 2))
def test_what_is_planted_is_in_doubt(kind: str) -> None:
    missed = [seed for seed in range(8) if not compare(*map(drawn, recorded_sources(seed, (kind,)))).doubts]
    assert not missed


def test_halves_of_one_dataset_agree() -> None:
    for seed in range(12):
        first, second = map(drawn, recorded_sources(seed, ()))
        agreement = compare(first, second)
        assert not agreement.doubts, seed
        assert {group.partition(".")[0] for group in agreement.groups} == {"state", "action"}


def reaching(rng: np.random.Generator) -> tuple[Array, Array]:
    """One task: from a pose to a thing and back, the gripper closed at it; `roll` rests at zero."""
    stops = np.array(
        [[0.4, -0.9, 0.0, 1.0], [1.2, 0.3, 0.0, 1.0], [1.2, 0.3, 0.0, 0.0], [0.4, -0.9, 0.0, 0.0]]
    )
    stops[:, :2] += rng.normal(0, 0.04, (4, 2))
    times = np.linspace(0, 3, int(rng.integers(80, 110)))
    action = np.stack([np.interp(times, range(4), column) for column in stops.T], axis=1)
    action += rng.normal(0, 1e-4, action.shape)
    return np.vstack([action[:1], action[:-1]]), action


def wandering(rng: np.random.Generator) -> tuple[Array, Array]:
    """No task: joints go anywhere on both sides of zero, each by itself; the gripper opens and closes at random."""
    stops = rng.normal(0, 0.5, (7, 4))
    stops[:, 3] = rng.integers(0, 2, 7)
    times = np.linspace(0, 6, int(rng.integers(150, 200)))
    action = np.stack([np.interp(times, range(7), column) for column in stops.T], axis=1)
    return np.vstack([action[:1], action[:-1]]), action


def sources(
    draw: Draw, change: Callable[[Array], Array] = lambda rows: rows, state_only: bool = False
) -> Agreement:
    """Two sources of five episodes; the second is changed."""
    rng = np.random.default_rng(5)
    pairs = [draw(rng) for _ in range(10)]
    changed = [(change(state), action if state_only else change(action)) for state, action in pairs[5:]]
    return compare(episodes_of(pairs[:5], NAMES), episodes_of(changed, NAMES))  # fmt: skip


def test_a_turned_joint_is_named_and_the_others_agree() -> None:
    agreement = sources(reaching, lambda rows: rows * np.array([1, -1, 1, 1]))
    assert ["lift do not move as" in doubt for doubt in agreement.doubts] == [True, True]
    assert "state.gripper" in agreement.groups and "state.arm" not in agreement.groups


def test_a_joint_that_is_turned_in_the_state_alone_is_named() -> None:
    doubts = sources(reaching, lambda rows: rows * np.array([1, -1, 1, 1]), state_only=True).doubts
    assert any(doubt.startswith("state of second") and "lift" in doubt for doubt in doubts)


def test_a_joint_that_rests_at_zero_is_no_question() -> None:
    """Turned or not, its values are the same."""
    assert not sources(reaching).doubts


def test_what_nothing_could_show_is_asked_for() -> None:
    """Joints that go anywhere look the same turned round, so that a sign could differ in silence."""
    doubts = sources(wandering).doubts
    assert doubts and all("would not show" in doubt for doubt in doubts)


def test_another_rate_under_the_same_stamps_is_told() -> None:
    (doubt,) = (doubt for doubt in sources(reaching, lambda rows: rows[::2]).doubts if "as fast" in doubt)
    assert 1.6 < float(doubt.split()[2]) < 2.4


def test_another_share_of_the_tasks_is_no_difference() -> None:
    """Tasks have other ranges; halves with more of the one and less of the other are still of one dataset."""
    rng = np.random.default_rng(8)

    def other(rng: np.random.Generator) -> tuple[Array, Array]:
        state, action = reaching(rng)
        factors = np.array([-1.5, 0.4, 1, 1])
        return state * factors, action * factors

    halves = []
    for counts in ((7, 4), (4, 7)):
        pairs = [reaching(rng) for _ in range(counts[0])] + [other(rng) for _ in range(counts[1])]
        halves.append(episodes_of(pairs, NAMES, ["reach"] * counts[0] + ["other"] * counts[1]))
    assert not compare(*halves).doubts


def test_sources_without_a_common_dimension_are_not_compared() -> None:
    rng = np.random.default_rng(1)
    pairs = [reaching(rng) for _ in range(3)]
    assert compare(episodes_of(pairs, NAMES), episodes_of(pairs, ("a", "b", "c", "d"))).doubts == ()


@pytest.mark.parametrize("episodes", [1, 2])
def test_few_or_short_episodes_are_compared_too(episodes: int) -> None:
    rng = np.random.default_rng(2)
    pairs = [reaching(rng) for _ in range(2 * episodes)]
    assert not compare(episodes_of(pairs[:episodes], NAMES), episodes_of(pairs[episodes:], NAMES)).doubts
    short = [(state[:1], action[:1]) for state, action in pairs]
    compare(episodes_of(short[:episodes], NAMES), episodes_of(short[episodes:], NAMES))
