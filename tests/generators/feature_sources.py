"""Sources of one robot with other signals beside state and action: audio, touch, efforts, flags, counters, events.

Which of them a source has is drawn, and so is how they differ from those of the other sources: another number of
numbers, another table of as many, dimensions in another order, another unit, steps without a value, episodes without
the signal. Sources are folders of LeRobot v2.1 and HDF5 files. Nothing here is shared with what merges them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests.generators.lerobot_folders import LeRobotFolder, column_of

Array = NDArray[Any]

RATE_HZ, STEPS = 10.0, 24
STATE = tuple(f"robot0_joint_pos_{number}" for number in range(3))
ACTION = tuple(f"actions_{number}" for number in range(3))
# What may differ of a feature of a later source from that of an earlier one.
KINDS = ("width", "table", "order", "unit", "type")
# The shape of a step of each feature, and its type.
_FEATURES: dict[str, tuple[tuple[int, ...], str]] = {
    "audio": ((48,), "float32"),
    "tactile": ((4, 4), "float32"),
    "effort": ((2,), "float32"),
    "contact": ((), "bool"),
    "counter": ((), "int64"),
    "force": ((), "float32"),
}
_FITTING: dict[str, tuple[str, ...]] = {
    "audio": ("width", "unit"),
    "tactile": ("width", "table", "unit"),
    "effort": ("width", "order", "unit"),
    "contact": ("type",),
    "counter": (),
    "force": ("unit",),
}


@dataclass(slots=True, kw_only=True)
class DrawnFeature:
    """A feature of one source.

    Attributes:
        shape: Of a step.
        dtype: "float32", "bool" or "int64".
        names: Declared names of its dimensions; () for none.
        planted: How it differs from that of the first source that has it, one of `KINDS`; "" for not at all.
        values: (T, D) float64 of each episode, NaN for a step without a value; None for an episode without it.
    """

    shape: tuple[int, ...]
    dtype: str
    names: tuple[str, ...] = ()
    planted: str = ""
    values: list[Array | None] = field(default_factory=list)

    @property
    def dimensions(self) -> set[str]:
        """What distinguishes its dimensions: their names, else their numbers, those of a table by row and column."""
        return {*self.names} or {str(cell) for cell in np.ndindex(self.shape)}

    @property
    def has_gaps(self) -> bool:
        """Whether any step has no value."""
        return any(values is not None and bool(np.isnan(values).any()) for values in self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSource:
    """A folder of episodes.

    Attributes:
        path: The folder, whose name is that of the dataset.
        format: "lerobot" or "hdf5".
        features: By name.
        has_events: Whether each step has a text.
    """

    path: Path
    format: str
    features: Mapping[str, DrawnFeature]
    has_events: bool


def make_feature_sources(folder: Path, seed: int) -> list[FeatureSource]:
    """Two or three sources at random."""
    rng = np.random.default_rng([seed, 40])
    drawn: dict[str, DrawnFeature] = {}
    sources = []
    for number in range(int(rng.choice([2, 2, 3]))):
        format = str(rng.choice(["lerobot", "lerobot", "hdf5"]))
        episodes = 6 - number - int(rng.integers(0, 2))
        features = _draw_features(rng, drawn, episodes, is_named=format == "lerobot")
        path = folder / f"{('one', 'two', 'three')[number]}"
        has_events = format == "lerobot" and bool(rng.random() < 0.5)
        write = _write_lerobot if format == "lerobot" else _write_hdf5
        source = FeatureSource(path=path, format=format, features=features, has_events=has_events)
        write(source, rng, episodes)
        sources.append(source)
    return sources


def _draw_features(
    rng: np.random.Generator, drawn: dict[str, DrawnFeature], episodes: int, *, is_named: bool
) -> dict[str, DrawnFeature]:
    features = {}
    for name, (shape, dtype) in _FEATURES.items():
        if rng.random() < 0.25:
            continue
        names = ("j0", "j1") if name == "effort" and is_named else ()
        feature = DrawnFeature(shape=shape, dtype=dtype, names=names)
        fitting = [kind for kind in _FITTING[name] if is_named or kind not in ("order", "type")]
        if name in drawn and fitting and rng.random() < 0.5:
            feature.planted = str(rng.choice(fitting))
            _plant(feature)
        factor = 1000.0 if feature.planted == "unit" else 1.0
        gaps, absent = rng.random(2) < 0.2
        for number in range(episodes):
            values = _draw_values(rng, feature, factor)
            if gaps and feature.dtype == "float32" and number % 2:
                values[rng.random(values.shape) < 0.1] = np.nan
                values[3, 0] = np.nan
            is_absent = absent and number == episodes - 1
            feature.values.append(None if is_absent else values)
        features[name] = feature
        drawn.setdefault(name, feature)
    return features


def _plant(feature: DrawnFeature) -> None:
    if feature.planted == "width":
        feature.shape = (*feature.shape[:-1], feature.shape[-1] + 1)
        feature.names = (*feature.names, "j2") if feature.names else ()
    elif feature.planted == "table":
        feature.shape = (2, 8)
    elif feature.planted == "order":
        feature.names = feature.names[::-1]
    elif feature.planted == "type":
        feature.dtype = "float32"


def _draw_values(rng: np.random.Generator, feature: DrawnFeature, factor: float) -> Array:
    width = int(np.prod(feature.shape, dtype=int))
    if feature.dtype == "bool":
        return np.asarray(np.arange(STEPS) % 7 < 3, np.float64).reshape(-1, 1)
    if feature.dtype == "int64":
        return np.arange(STEPS, dtype=np.float64).reshape(-1, 1) * 100
    values = rng.uniform(-1, 1, (STEPS, width)) * factor
    return values.astype(np.float32).astype(np.float64)


def _draw_motion(rng: np.random.Generator) -> tuple[Array, Array]:
    """(T, 3) state and action of an episode."""
    share = np.linspace(0, 1, STEPS)[:, None]
    state = np.hstack([np.sin(3 * share), share**2, 1 - share]) + rng.normal(0, 0.01, (STEPS, 3))
    return state.astype(np.float32), np.vstack([state[1:], state[-1:]]).astype(np.float32)


def _write_lerobot(source: FeatureSource, rng: np.random.Generator, episodes: int) -> None:
    motions = [_draw_motion(rng) for _ in range(episodes)]
    columns: dict[str, Any] = {
        "observation.state": np.concatenate([state for state, _ in motions]),
        "action": np.concatenate([action for _, action in motions]),
    }
    features: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": [3], "names": list(STATE)},
        "action": {"dtype": "float32", "shape": [3], "names": list(ACTION)},
    }
    for name, feature in source.features.items():
        rows = [row for values in feature.values for row in _rows(values, feature)]
        columns[f"observation.{name}"] = column_of(rows, feature.dtype, len(feature.shape))
        features[f"observation.{name}"] = {
            "dtype": feature.dtype,
            "shape": list(feature.shape) or [1],
            "names": list(feature.names) or None,
        }
    if source.has_events:
        columns["event"] = pa.array([("", "grasp", "slip")[step % 3] for step in range(STEPS)] * episodes)
        features["event"] = {"dtype": "string", "shape": [1], "names": None}
    made = LeRobotFolder(
        columns=columns,
        lengths=[STEPS] * episodes,
        rate_hz=int(RATE_HZ),
        tasks=["pick up the mug"],
        info={"features": features},
    )
    made.write(source.path)


def _rows(values: Array | None, feature: DrawnFeature) -> list[Any]:
    """The values of an episode, None where it lacks them."""
    if values is None:
        return [None] * STEPS
    rows: list[Any] = values.reshape(STEPS, *feature.shape).astype(feature.dtype).tolist()
    return rows


def _write_hdf5(source: FeatureSource, rng: np.random.Generator, episodes: int) -> None:
    import h5py  # type: ignore[import-untyped]

    source.path.mkdir(parents=True)
    with h5py.File(source.path / "demos.hdf5", "w") as file:
        for number in range(episodes):
            group = file.create_group(f"data/demo_{number}")
            group["obs/robot0_joint_pos"], group["actions"] = _draw_motion(rng)
            for name, feature in source.features.items():
                if (values := feature.values[number]) is not None:
                    group[f"obs/{name}"] = values.reshape(STEPS, *feature.shape).astype(feature.dtype)
