"""Pairs of datasets of one robot, of which the second is honest or differs by one planted convention.

Written from the paragraph of issue 33 on sets from several sources, before what it says was built, and from no
other code: nothing here is shared with what compares datasets.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

HONEST = ("copy", "same task", "other task", "other ranges", "few episodes", "other home", "slower")
PLANTED = ("unit", "sign", "offset", "gripper", "exchanged", "order")
BASES = ("copy", "same task", "other task")
RATE_HZ = 30.0
_DEGREES = 57.29577951308232
_TICKS = 4096 / 6.283185307179586


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRobot:
    """A robot that two datasets are of.

    Attributes:
        names: Name of each dimension.
        kinds: Kind of each dimension: "arm", "gripper" or "hand".
        home: Value of each dimension where episodes start.
        low: Lower limit of each dimension.
        high: Upper limit of each dimension.
        reach: Usual size of a motion of each dimension.
        resolution: Distance of neighbouring values of an encoder, 0 for none.
        noise: Standard deviation of what is measured.
        lag: Steps by which the state is late.
        returns: Whether an episode ends at home.
        grip: Where each finger stops at an object, as a share of its range from closed.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    home: Array
    low: Array
    high: Array
    reach: Array
    resolution: float
    noise: float
    lag: int
    returns: bool
    grip: float

    def dimensions(self, *kinds: str) -> list[int]:
        """Numbers of the dimensions of these kinds."""
        return [number for number, kind in enumerate(self.kinds) if kind in kinds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The episodes of one dataset: (T, D) states and actions, and the names of the D dimensions."""

    states: tuple[Array, ...]
    actions: tuple[Array, ...]
    names: tuple[str, ...]

    def mapped(self, change: Callable[[Array], Array]) -> Recorded:
        """The same episodes with a function applied to each (T, D) array."""
        return replace(self, states=tuple(map(change, self.states)), actions=tuple(map(change, self.actions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSources:
    """Two datasets of one robot and what sets them apart.

    Attributes:
        first: One dataset.
        second: The other.
        base: What the second is but for the planted difference, one of `HONEST`.
        planted: One of `PLANTED`; "" where the two may be mixed.
        dimensions: Dimensions of the second that differ.
        detail: The factor, the offset or the permutation, for a report.
    """

    first: Recorded
    second: Recorded
    base: str
    planted: str
    dimensions: tuple[int, ...]
    detail: str


def random_robot(rng: np.random.Generator) -> ArmRobot:
    """One or two arms with a gripper or a hand each, in radians."""
    import numpy as np

    sides = ("left_", "right_") if rng.random() < 0.35 else ("",)
    fingers, joints = int(rng.choice([1, 1, 1, 6])), int(rng.integers(5, 8))
    words = (
        "shoulder_pan",
        "shoulder_lift",
        "shoulder_roll",
        "elbow_flex",
        "wrist_roll",
        "wrist_flex",
        "wrist_yaw",
    )
    arm_names = [f"joint_{n + 1}" for n in range(joints)] if rng.random() < 0.5 else list(words[:joints])
    names, kinds = list[str](), list[str]()
    for side in sides:
        names += [side + name for name in arm_names]
        names += [f"{side}gripper"] if fingers == 1 else [f"{side}hand_{n}" for n in range(fingers)]
        kinds += ["arm"] * joints + (["gripper"] if fingers == 1 else ["hand"] * fingers)
    is_arm = np.array(kinds) == "arm"
    one_sided = is_arm & (rng.random(len(kinds)) < 0.35)
    low = np.where(one_sided, -0.1, -rng.uniform(1.5, 3.0, len(kinds)))
    high = np.where(one_sided, rng.uniform(1.8, 2.9, len(kinds)), -low)
    home = np.where(one_sided, rng.uniform(0.2, 1.6, len(kinds)), rng.uniform(-0.8, 0.8, len(kinds)))
    reach = rng.uniform(0.15, 0.7, len(kinds))
    top = float(rng.choice([1.0, 1.0, 1.0, 0.08, 0.9]))
    return ArmRobot(
        names=tuple(names),
        kinds=tuple(kinds),
        home=np.where(is_arm, home, top),
        low=np.where(is_arm, low, 0.0),
        high=np.where(is_arm, high, top),
        reach=np.where(is_arm, reach, top),
        resolution=float(rng.choice([0.0, 1 / _TICKS])),
        noise=float(10 ** rng.uniform(-4, -3)),
        lag=int(rng.integers(1, 5)),
        returns=bool(rng.random() < 0.4),
        grip=float(rng.uniform(0.15, 0.5)),
    )


def random_waypoints(robot: ArmRobot, rng: np.random.Generator, scale: Array, home: Array) -> Array:
    """(K, D) where one task goes: home, some places, the object, perhaps home again; closed at the object."""
    import numpy as np

    places = int(rng.integers(3, 6))
    away = rng.normal(0, 1, (places, len(robot.names))) * robot.reach * scale
    points = np.clip(home + away, robot.low + 0.02, robot.high - 0.02)
    end = home if robot.returns else points[-1]
    points = np.vstack([home, points, end])
    fingers = robot.dimensions("gripper", "hand")
    closes, opens = int(rng.integers(1, places - 1)), places + int(rng.integers(0, 2))
    points[:, fingers] = robot.high[fingers]
    points[closes + 1 : opens + 1, fingers] = robot.low[fingers]
    return points


def record(
    robot: ArmRobot, points: Array, rng: np.random.Generator, episodes: int, pace: float = 1.0
) -> Recorded:
    """Episodes of one task, each with its own goals, times and noise."""
    made = [_record_episode(robot, points, rng, pace) for _ in range(episodes)]
    return Recorded(
        states=tuple(state for state, _ in made),
        actions=tuple(action for _, action in made),
        names=robot.names,
    )


def _record_episode(
    robot: ArmRobot, points: Array, rng: np.random.Generator, pace: float
) -> tuple[Array, Array]:
    import numpy as np

    arm, fingers = robot.dimensions("arm"), robot.dimensions("gripper", "hand")
    own = points.copy()
    own[1:, arm] += rng.normal(0, 0.2, own[1:, arm].shape) * robot.reach[arm]
    own[0, arm] += rng.normal(0, 0.02, len(arm))
    own = np.clip(own, robot.low, robot.high)
    spans = rng.uniform(25, 55, len(own) - 1) * pace
    stops = np.concatenate([[0], np.cumsum(spans)]) + 5
    steps = np.arange(int(stops[-1] + rng.uniform(5, 20)))
    leg = np.clip(np.searchsorted(stops, steps, side="right") - 1, 0, len(spans) - 1)
    share = np.clip((steps - stops[leg]) / spans[leg], 0, 1)
    smooth = (share**3 * (10 - 15 * share + 6 * share**2))[:, None]
    command = own[leg] * (1 - smooth) + own[leg + 1] * smooth
    state = command[np.clip(steps - robot.lag, 0, None)].copy()
    span = robot.high[fingers] - robot.low[fingers]
    thickness = robot.grip * rng.uniform(0.8, 1.2, len(fingers))
    state[:, fingers] = np.maximum(state[:, fingers], robot.low[fingers] + span * thickness)
    noise = np.where(np.array(robot.kinds) == "arm", robot.noise, robot.noise * robot.high)
    state += rng.normal(0, 1, state.shape) * noise
    if robot.resolution:
        state[:, arm] = np.round(state[:, arm] / robot.resolution) * robot.resolution
    return state, command + rng.normal(0, 0.3, command.shape) * noise * (
        np.abs(np.gradient(command, axis=0)) > 1e-6
    )


def two_sources(seed: int) -> TwoSources:
    """A pair at random: three of ten are honest in each way that datasets of one robot differ anyway."""
    import numpy as np

    rng = np.random.default_rng(seed)
    robot = random_robot(rng)
    ones = np.ones(len(robot.names))
    points = random_waypoints(robot, rng, ones, robot.home)
    first = record(robot, points, rng, int(rng.integers(5, 12)))
    planted = str(rng.choice(PLANTED)) if rng.random() < 0.6 else ""
    base = str(rng.choice(BASES if planted else HONEST))
    second = first if base == "copy" else _other_recording(robot, points, rng, base)
    if not planted:
        turned = _in_one_unit(robot, rng)
        return TwoSources(
            first=first.mapped(turned),
            second=second.mapped(turned),
            base=base,
            planted="",
            dimensions=(),
            detail="",
        )
    return _plant(robot, first, second, base, planted, rng)


def _other_recording(robot: ArmRobot, points: Array, rng: np.random.Generator, base: str) -> Recorded:
    import numpy as np

    episodes, pace, home = int(rng.integers(5, 12)), 1.0, robot.home
    scale = np.ones(len(robot.names))
    if base == "other ranges":
        scale = rng.uniform(0.35, 1.5, len(scale))
    if base == "other home":
        arm = robot.dimensions("arm")
        home = home.copy()
        home[arm] += rng.normal(0, 0.35, len(arm)) * robot.reach[arm]
        home = np.clip(home, robot.low, robot.high)
    if base in ("other task", "other ranges", "other home"):
        points = random_waypoints(robot, rng, scale, home)
    if base == "slower":
        pace = float(rng.uniform(1.5, 2.5))
    if base == "few episodes":
        episodes = int(rng.integers(1, 4))
    return record(robot, points, rng, episodes, pace)


def _in_one_unit(robot: ArmRobot, rng: np.random.Generator) -> Callable[[Array], Array]:
    """Both datasets of a pair in a unit that need not be radians: what is the same on both sides is no difference."""
    import numpy as np

    factor = np.ones(len(robot.names))
    factor[robot.dimensions("arm")] = float(rng.choice([1.0, 1.0, _DEGREES, 100 / 3.0]))
    return lambda values: values * factor


def _plant(
    robot: ArmRobot, first: Recorded, second: Recorded, base: str, planted: str, rng: np.random.Generator
) -> TwoSources:
    change, dimensions, detail = _PLANTERS[planted](robot, rng)
    turned = _in_one_unit(robot, rng) if planted != "unit" else (lambda values: values)
    return TwoSources(
        first=first.mapped(turned),
        second=second.mapped(turned).mapped(change)
        if planted != "offset"
        else second.mapped(change).mapped(turned),
        base=base,
        planted=planted,
        dimensions=tuple(dimensions),
        detail=detail,
    )


Planter = Callable[[ArmRobot, "np.random.Generator"], tuple[Callable[["Array"], "Array"], list[int], str]]


def _other_unit(robot: ArmRobot, rng: np.random.Generator) -> tuple[Callable[[Array], Array], list[int], str]:
    import numpy as np

    arm = robot.dimensions("arm")
    some = (
        arm if rng.random() < 0.6 else sorted(rng.choice(arm, max(2, len(arm) // 2), replace=False).tolist())
    )
    name = str(rng.choice(["deg", "percent", "ticks", "mm", "constant"]))
    factor, offset = np.ones(len(robot.names)), np.zeros(len(robot.names))
    if name == "percent":
        middle, half = (robot.low + robot.high) / 2, (robot.high - robot.low) / 2
        factor[some], offset[some] = (100 / half)[some], (-100 * middle / half)[some]
    elif name == "ticks":
        factor[some], offset[some] = _TICKS, 2048
    else:
        known = {"deg": _DEGREES, "mm": 1000.0}
        factor[some] = known.get(
            name, float(np.exp(rng.uniform(np.log(3), np.log(300)) * rng.choice([-1, 1])))
        )
    return lambda values: values * factor + offset, some, f"{name} {factor[some[0]]:.4g}"


def _other_sign(robot: ArmRobot, rng: np.random.Generator) -> tuple[Callable[[Array], Array], list[int], str]:
    import numpy as np

    joint = int(rng.choice(robot.dimensions("arm")))
    factor = np.where(np.arange(len(robot.names)) == joint, -1.0, 1.0)
    return lambda values: values * factor, [joint], "-1"


def _other_zero(robot: ArmRobot, rng: np.random.Generator) -> tuple[Callable[[Array], Array], list[int], str]:
    import numpy as np

    joint = int(rng.choice(robot.dimensions("arm")))
    offset = np.zeros(len(robot.names))
    offset[joint] = float(rng.choice([-1, 1]) * rng.choice([1.5707963, 3.1415927, rng.uniform(0.8, 2.5)]))
    return lambda values: values + offset, [joint], f"{offset[joint]:+.3g} rad"


def _turned_gripper(
    robot: ArmRobot, rng: np.random.Generator
) -> tuple[Callable[[Array], Array], list[int], str]:
    import numpy as np

    fingers = robot.dimensions("gripper", "hand")
    is_finger = np.isin(np.arange(len(robot.names)), fingers)
    return lambda values: np.where(is_finger, robot.high + robot.low - values, values), fingers, "open end"


def _exchanged(robot: ArmRobot, rng: np.random.Generator) -> tuple[Callable[[Array], Array], list[int], str]:
    import numpy as np

    one, other = sorted(rng.choice(robot.dimensions("arm"), 2, replace=False).tolist())
    order = np.arange(len(robot.names))
    order[[one, other]] = order[[other, one]]
    return lambda values: values[:, order], [one, other], f"{one} and {other}"


def _other_order(
    robot: ArmRobot, rng: np.random.Generator
) -> tuple[Callable[[Array], Array], list[int], str]:
    import numpy as np

    order = np.roll(np.arange(len(robot.names)), int(rng.integers(1, 3)))
    if rng.random() < 0.5:
        order = np.arange(len(robot.names))[::-1]
    return lambda values: values[:, order], list(range(len(order))), str(order.tolist())


_PLANTERS: dict[str, Planter] = {
    "unit": _other_unit,
    "sign": _other_sign,
    "offset": _other_zero,
    "gripper": _turned_gripper,
    "exchanged": _exchanged,
    "order": _other_order,
}


def write_recorded(folder: Path, recorded: Recorded, robot_type: str = "one_robot") -> Path:
    """A LeRobot v2.1 dataset of the episodes, without videos."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "meta").mkdir(parents=True)
    (folder / "data/chunk-000").mkdir(parents=True)
    vector = {"dtype": "float32", "shape": [len(recorded.names)], "names": list(recorded.names)}
    info = {
        "codebase_version": "v2.1",
        "robot_type": robot_type,
        "total_episodes": len(recorded.states),
        "chunks_size": 1000,
        "fps": RATE_HZ,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "features": {"observation.state": vector, "action": vector},
    }
    lines, rows = [], 0
    for number, (state, action) in enumerate(zip(recorded.states, recorded.actions, strict=True)):
        steps = len(state)
        columns = {
            "observation.state": pa.array(state.tolist(), pa.list_(pa.float32())),
            "action": pa.array(action.tolist(), pa.list_(pa.float32())),
            "timestamp": np.arange(steps) / RATE_HZ,
            "frame_index": np.arange(steps),
            "episode_index": np.full(steps, number),
            "index": np.arange(steps) + rows,
            "task_index": np.zeros(steps, dtype=int),
        }
        rows += steps
        pq.write_table(pa.table(columns), folder / f"data/chunk-000/episode_{number:06d}.parquet")
        lines.append(json.dumps({"episode_index": number, "tasks": ["move"], "length": steps}))
    (folder / "meta/info.json").write_text(json.dumps(info))
    (folder / "meta/episodes.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "meta/tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": "move"}) + "\n")
    return folder
