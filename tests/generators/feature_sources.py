"""Sources of one robot with other signals beside state and action: audio, touch, efforts, flags, counters, events.

Which of them a source has is drawn, and so is how they differ from those of the other sources: another number of
numbers, another table of as many, dimensions in another order, another unit, steps without a value, episodes without
the signal. Sources are folders of LeRobot v2.1 and HDF5 files. Nothing here is shared with what merges them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

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
    path = source.path
    (path / "meta").mkdir(parents=True)
    (path / "data/chunk-000").mkdir(parents=True)
    for number in range(episodes):
        state, action = _draw_motion(rng)
        columns = {
            "observation.state": _column(state, (3,), "float32"),
            "action": _column(action, (3,), "float32"),
        }
        for name, feature in source.features.items():
            if (values := feature.values[number]) is not None:
                columns[f"observation.{name}"] = _column(values, feature.shape, feature.dtype)
        if source.has_events:
            columns["event"] = pa.array([("", "grasp", "slip")[step % 3] for step in range(STEPS)])
        steps = np.arange(STEPS)
        columns |= {
            "timestamp": pa.array((steps / RATE_HZ).astype(np.float32)),
            "frame_index": pa.array(steps),
            "episode_index": pa.array(np.full(STEPS, number)),
            "index": pa.array(steps + number * STEPS),
            "task_index": pa.array(np.zeros(STEPS, np.int64)),
        }
        pq.write_table(pa.table(columns), path / f"data/chunk-000/episode_{number:06d}.parquet")
    _write_meta(path, _describe_features(source.features, has_events=source.has_events), episodes)


def _describe_features(features: Mapping[str, DrawnFeature], *, has_events: bool) -> dict[str, Any]:
    """The features of info.json."""
    return {
        "observation.state": {"dtype": "float32", "shape": [3], "names": list(STATE)},
        "action": {"dtype": "float32", "shape": [3], "names": list(ACTION)},
        **{
            f"observation.{name}": {
                "dtype": feature.dtype,
                "shape": list(feature.shape) or [1],
                "names": list(feature.names) or None,
            }
            for name, feature in features.items()
        },
        **({"event": {"dtype": "string", "shape": [1], "names": None}} if has_events else {}),
    }


def _column(values: Array, shape: tuple[int, ...], dtype: str) -> pa.Array:
    """Rows of a feature, lists in lists for a table."""
    kind = {"float32": pa.float32(), "bool": pa.bool_(), "int64": pa.int64()}[dtype]
    for _ in shape:
        kind = pa.list_(kind)
    rows = values.reshape(len(values), *shape)
    return pa.array(rows.astype(dtype).tolist(), kind)


def _write_meta(path: Path, features: Mapping[str, Any], episodes: int) -> None:
    info = {
        "codebase_version": "v2.1",
        "robot_type": "arm",
        "total_episodes": episodes,
        "total_frames": episodes * STEPS,
        "total_tasks": 1,
        "total_videos": 0,
        "total_chunks": 1,
        "chunks_size": 1000,
        "fps": int(RATE_HZ),
        "splits": {"train": f"0:{episodes}"},
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": None,
        "features": features,
    }
    (path / "meta/info.json").write_text(json.dumps(info))
    (path / "meta/tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": "pick up the mug"}) + "\n")
    lines = ({"episode_index": n, "tasks": ["pick up the mug"], "length": STEPS} for n in range(episodes))
    (path / "meta/episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


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
