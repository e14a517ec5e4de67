"""Motion of robots that record joints; smoothness by the published code (github.com/siva82kb/smoothness)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.episode import Signal, Trajectory
from ares_annotators.motion.measures import measure_motion
from ares_annotators.motion.periods import resample
from ares_annotators.motion.smoothness import compute_movement_jerk, compute_spectral_arc_lengths

ARM = tuple(f"{side}_joint_{number}" for side in ("left", "right") for number in range(3))


def _trajectory(values: np.ndarray, names: tuple[str, ...], rate_hz: float = 50.0) -> Trajectory:
    return Trajectory(
        timestamps=np.arange(len(values)) / rate_hz, state=Signal(values.astype(np.float32), names)
    )


def _number(measures: object, name: str) -> float:
    assert isinstance(measures, dict)
    return float(measures[name])


def _reaches(rng: np.random.Generator, count: int, rate_hz: float, seconds: float = 1.5) -> np.ndarray:
    """(T, 3) minimum-jerk movements between random angles."""
    points = rng.normal(0, 0.6, (count + 1, 3))
    phase = np.arange(int(seconds * rate_hz)) / (seconds * rate_hz)
    course = (10 * phase**3 - 15 * phase**4 + 6 * phase**5)[:, None]
    return np.concatenate([a + (b - a) * course for a, b in itertools.pairwise(points)])


def test_a_robot_of_joints_has_path_speed_and_smoothness() -> None:
    tau = np.linspace(0, 1, 101)
    course = 0.9 * (10 * tau**3 - 15 * tau**4 + 6 * tau**5)
    measures = measure_motion(
        _trajectory(np.stack([course, 0 * course, 0 * course], axis=1), ("joint_0", "joint_1", "joint_2"))
    )
    assert measures["motion_spaces"] == ["joints"]
    assert _number(measures, "joint_path_length") == pytest.approx(0.9, abs=0.02)
    assert _number(measures, "joint_peak_speed") == pytest.approx(0.9 * 1.875 / 2, rel=0.05)
    # 2 s of minimum jerk: the published constant, less the jerk at both ends, which 10 Hz does not resolve.
    assert _number(measures, "joint_jerk_ldlj") == pytest.approx(-np.log(720 / 1.875**2), abs=0.9)
    assert _number(measures, "joint_sparc") == pytest.approx(-1.4, abs=0.1)
    assert "path_length" not in measures


def test_a_parked_arm_and_a_resting_hand_change_nothing() -> None:
    rng = np.random.default_rng(3)
    right = _reaches(rng, 6, 50)
    left = np.full_like(right, 0.4) + rng.normal(0, 1e-3, right.shape)
    hand = np.full((len(right), 5), 0.5) + rng.normal(0, 0.004, (len(right), 5))
    names = (*ARM, *(f"left_hand_{n}" for n in range(5)))
    both = measure_motion(_trajectory(np.concatenate([left, right, hand], axis=1), names))
    alone = measure_motion(_trajectory(right, ARM[3:]))
    for name in ("joint_mean_speed", "joint_jerk_ldlj", "joint_sparc", "direction_changes"):
        assert _number(both, name) == pytest.approx(_number(alone, name)), name
    assert (both["hand_events"], len(both["arms"])) == (0, 2)  # type: ignore[arg-type]


def test_hands_and_two_grippers_are_counted() -> None:
    steps = np.arange(300)
    closing = np.where((steps > 100) & (steps < 200), 1.0, 0.0)
    late = np.where(steps > 150, 1.0, 0.0)
    arms = np.sin(steps / 20)[:, None] * np.ones(6)
    fingers = np.stack([closing, -closing], axis=1)
    sides = _trajectory(
        np.concatenate([arms, np.stack([closing, late], axis=1)], axis=1),
        (*ARM, "left_gripper", "right_gripper"),
    )
    assert measure_motion(sides)["gripper_events"] == 3
    # One arm: these are two fingers of one gripper, which move against each other.
    pair = _trajectory(
        np.concatenate([arms[:, :3], fingers], axis=1),
        ("joint_0", "joint_1", "joint_2", "gripper_left", "gripper_right"),
    )
    assert measure_motion(pair)["gripper_events"] == 2
    hand = _trajectory(
        np.concatenate([arms[:, :3], fingers], axis=1), (*ARM[3:], "right_hand_0", "right_hand_1")
    )
    assert measure_motion(hand)["hand_events"] == 2


def test_a_thumb_that_turns_alone_does_not_close_the_hand() -> None:
    rng = np.random.default_rng(4)
    arm = _reaches(rng, 4, 50)
    hand = np.zeros((len(arm), 6))
    names = (*ARM[3:], *(f"right_hand_{number}" for number in range(6)))
    hand[20:, 5] = 1.7
    thumb = measure_motion(_trajectory(np.concatenate([arm, hand], axis=1), names))
    hand[100:200, :4] = 1.4
    grasp = measure_motion(_trajectory(np.concatenate([arm, hand], axis=1), names))
    assert (thumb["hand_events"], grasp["hand_events"]) == (0, 2)


@pytest.mark.parametrize("name", ["joint_jerk_ldlj", "joint_sparc", "idle_share", "direction_changes"])
def test_a_longer_episode_scores_no_better_and_no_worse(name: str) -> None:
    short, long = (
        np.median([_number(measure_motion(_trajectory(_reaches(rng, count, 30), ARM[:3], 30)), name) for rng in rngs])
        for count, rngs in (
            (8, [np.random.default_rng(seed) for seed in range(20)]),
            (48, [np.random.default_rng(seed) for seed in range(100, 120)]),
        )
    )  # fmt: skip
    # The sum that grows with the movements would differ by 4 ln 6 = 7.2.
    assert abs(short - long) < 0.6


def test_slower_and_at_another_rate_the_smoothness_is_the_same() -> None:
    values = {}
    for rate_hz, seconds in ((20.0, 1.5), (50.0, 1.5), (50.0, 3.0)):
        path = _reaches(np.random.default_rng(5), 10, rate_hz, seconds)
        values[rate_hz, seconds] = measure_motion(_trajectory(path, ARM[:3], rate_hz))
    jerks = [_number(measures, "joint_jerk_ldlj") for measures in values.values()]
    assert max(jerks) - min(jerks) < 0.5
    paths = [_number(measures, "joint_path_length") for measures in values.values()]
    assert max(paths) / min(paths) < 1.05


def test_noise_makes_a_path_rougher_at_every_strength() -> None:
    rng = np.random.default_rng(8)
    path = _reaches(rng, 10, 50)
    jerks = [
        _number(
            measure_motion(_trajectory(path + rng.normal(0, size, path.shape), ARM[:3])), "joint_jerk_ldlj"
        )
        for size in (0.0, 0.01, 0.03, 0.1)
    ]
    assert jerks == sorted(jerks, reverse=True)


def test_resampling_keeps_the_mean_and_takes_uneven_steps() -> None:
    seconds = np.cumsum(np.random.default_rng(1).uniform(0.01, 0.03, 200))
    means, period = resample(np.stack([seconds, 2 * seconds], axis=1), seconds)
    expected = seconds[0] + period * (np.arange(len(means)) + 0.5)
    assert period == 0.1
    np.testing.assert_allclose(means, np.stack([expected, 2 * expected], axis=1), atol=1e-9)


@pytest.mark.parametrize("count", range(2, 12))
def test_the_jerk_of_a_few_samples_is_finite_or_none(count: int) -> None:
    values = np.random.default_rng(count).normal(size=(count, 3))
    jerk = compute_movement_jerk(values, 0.1, np.ones(count - 1, bool), 1.0, 1.0)
    assert (jerk is None) == (count < 5) and (jerk is None or math.isfinite(jerk))


# Speed of the movement in the documentation of the reference, at 100 Hz, and what it says of it.
RATE_HZ = 100.0
STAMPS = np.arange(-1, 1, 1 / RATE_HZ)
SPEED = np.exp(-5 * STAMPS**2)
PUBLISHED_SPARC = -1.41403


def _arc_length_by_sums(speed: NDArray[np.float64], rate_hz: float) -> float:
    """Eq. 6 with every Fourier sum written out: padding by 2^4, 10 Hz, 5 % of the start."""
    size = 2 ** (math.ceil(math.log2(len(speed))) + 4)
    frequencies = [number * rate_hz / size for number in range(size // 2 + 1)]
    frequencies = [frequency for frequency in frequencies if frequency <= 10]
    steps = np.arange(len(speed)) / rate_hz
    amplitudes = [abs(np.sum(speed * np.exp(-2j * np.pi * frequency * steps))) for frequency in frequencies]
    amplitudes = [amplitude / amplitudes[0] for amplitude in amplitudes]
    last = max(number for number, amplitude in enumerate(amplitudes) if amplitude >= 0.05)
    width = frequencies[last] - frequencies[0]
    return -sum(
        math.hypot((frequencies[n + 1] - frequencies[n]) / width, amplitudes[n + 1] - amplitudes[n])
        for n in range(last)
    )


def test_the_published_value_of_the_published_movement() -> None:
    length = compute_spectral_arc_lengths(SPEED[None], 1 / RATE_HZ)[0]
    assert length == pytest.approx(PUBLISHED_SPARC, abs=5e-6)
    assert _arc_length_by_sums(SPEED, RATE_HZ) == pytest.approx(PUBLISHED_SPARC, abs=5e-6)


@pytest.mark.parametrize("seed", range(20))
def test_random_movements_by_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rate_hz = float(rng.choice([50.0, 100.0, 200.0]))
    seconds = np.arange(0, rng.uniform(2.5, 4), 1 / rate_hz)
    bells = [
        rng.uniform(0.3, 1)
        * np.exp(-((seconds - rng.uniform(1, seconds[-1] - 1)) ** 2) / rng.uniform(0.02, 0.1))
        for _ in range(rng.integers(1, 6))
    ]
    speed = np.sum(bells, axis=0)
    expected = _arc_length_by_sums(speed, rate_hz)
    assert compute_spectral_arc_lengths(speed[None], 1 / rate_hz)[0] == pytest.approx(expected, abs=1e-9), (
        seed
    )
