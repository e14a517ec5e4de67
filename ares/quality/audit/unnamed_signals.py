"""Generates signals without names: joints, grippers, hands, poses, clocks and speeds, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.quality.kinds import DimensionKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Block = tuple[list[DimensionKind], "NDArray[np.float64]"]


def random_dimensions(
    rng: np.random.Generator, episodes: int = 5
) -> tuple[tuple[DimensionKind, ...], list[NDArray[np.float64]], float]:
    """The true kinds of D dimensions, the values (T, D) of some episodes, and the rate in Hz; half of the robots have
    their dimensions permuted, in which case four of a quaternion are no neighbours."""
    import numpy as np

    rate_hz = float(rng.choice([10.0, 20.0, 30.0, 50.0]))
    plan = {
        "joints": int(rng.integers(5, 15)),
        "grippers": int(rng.integers(0, 3)),
        "fingers": int(rng.choice([0, 0, 6])),
        "pose": int(rng.random() < 0.4),
        "clock": int(rng.random() < 0.3),
        "speeds": int(rng.random() < 0.3),
    }
    unit = float(rng.choice([1.0, 57.29578]))
    noise = float(rng.choice([0.0, 1e-4, 1e-3]))
    home = rng.uniform(-1.6, 1.6, plan["joints"])
    values, kinds = [], tuple[DimensionKind, ...]()
    for _ in range(episodes):
        seconds = np.arange(int(rng.uniform(6, 20) * rate_hz)) / rate_hz
        blocks = _blocks(plan, seconds, home, unit, noise, rng)
        kinds = tuple(kind for names, _ in blocks for kind in names)
        values.append(np.concatenate([block for _, block in blocks], axis=1).astype(np.float32).astype(float))
    if rng.random() < 0.5:
        order = rng.permutation(len(kinds))
        kinds, values = tuple(kinds[n] for n in order), [part[:, order] for part in values]
    return kinds, values, rate_hz


def _blocks(
    plan: dict[str, int],
    seconds: NDArray[np.float64],
    home: NDArray[np.float64],
    unit: float,
    noise: float,
    rng: np.random.Generator,
) -> list[Block]:
    import numpy as np

    joints = home + 0.5 * _smooth(seconds, plan["joints"], rng)
    measured = unit * (joints + rng.normal(0, noise, joints.shape))
    blocks: list[Block] = [(["arm"] * plan["joints"], measured)]
    for _ in range(plan["grippers"]):
        blocks.append((["gripper"], rng.choice([0.08, 1.0, 100.0]) * _switched(seconds, rng)))
    if plan["fingers"]:
        closure = 1.5 * _switched(seconds, rng) * rng.uniform(0.6, 1, plan["fingers"])
        blocks.append((["hand"] * plan["fingers"], closure + rng.normal(0, 1e-3, closure.shape)))
    if plan["pose"]:
        turns = _smooth(seconds, 4, rng) + np.array([3, 0, 0, 0])
        quaternion = turns / np.linalg.norm(turns, axis=1, keepdims=True)
        blocks.append((["position"] * 3, 0.5 + 0.15 * _smooth(seconds, 3, rng)))
        blocks.append((["rotation"] * 4, quaternion))
    if plan["clock"]:
        blocks.append((["other"], seconds[:, None]))
    if plan["speeds"]:
        speeds = unit * np.gradient(joints, seconds, axis=0)
        blocks.append((["other"] * plan["joints"], speeds))
    return blocks


def _smooth(seconds: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(T, count) sums of slow sines, of standard deviation 1."""
    import numpy as np

    frequencies = rng.uniform(0.05, 0.4, (4, count))
    phases = rng.uniform(0, 2 * np.pi, (4, count))
    parts = np.sin(2 * np.pi * frequencies * seconds[:, None, None] + phases)
    return np.asarray(parts.sum(axis=1) / np.sqrt(2))


def _switched(seconds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """(T, 1) open or closed, changed one to three times in 0.2 to 0.6 s."""
    import numpy as np

    times = np.sort(rng.uniform(0.1, 0.8, int(rng.integers(1, 4)))) * seconds[-1]
    period = rng.uniform(0.2, 0.6)
    parts = [(-1) ** number * np.clip((seconds - time) / period, 0, 1) for number, time in enumerate(times)]
    return np.asarray(np.sum(parts, axis=0))[:, None]
