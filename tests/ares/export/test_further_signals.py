"""Signals beside state, action and reward: name, type and values go from the source into each export and back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from ares import open as open_workspace
from ares.episode import Signal
from ares.errors import RequestError
from ares.workspace import Workspace
from tests.ares.export.made_episodes import FRONT, make_record, make_set, read_info
from tests.ares.export.rlds.test_exporter import records, values

STEPS = 30
TYPES = ("bool", "int8", "int32", "int64", "uint16", "float32", "float64")


def draw_signals(seed: int) -> dict[str, NDArray[Any]]:
    """(T,) or (T, D) of random types under random names, some of them in folders."""
    rng = np.random.default_rng(seed)
    signals = {}
    for number in range(6):
        shape = (STEPS,) if rng.random() < 0.5 else (STEPS, int(rng.integers(2, 5)))
        dtype = TYPES[rng.integers(len(TYPES))]
        name = f"{('', 'info/', 'policy/stage/')[rng.integers(3)]}part{number}"
        signals[name] = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    return signals


@pytest.fixture(params=range(4))
def signals(request: pytest.FixtureRequest) -> dict[str, NDArray[Any]]:
    return draw_signals(request.param)


@pytest.fixture
def ws(signals: dict[str, NDArray[Any]], tmp_path: Path) -> Workspace:
    """Two HDF5 episodes with these signals, as a set."""
    (tmp_path / "source").mkdir()
    for number in range(2):
        with h5py.File(tmp_path / "source" / f"episode_{number}.hdf5", "w") as file:
            rng = np.random.default_rng(number)
            file["action"] = rng.normal(size=(STEPS, 3)).astype(np.float32)
            file["observations/qpos"] = rng.normal(size=(STEPS, 3)).astype(np.float32)
            for name, stored in signals.items():
                file[name] = stored
    return ingested(tmp_path / "source", tmp_path / "ws")


def ingested(source: Path, place: Path) -> Workspace:
    workspace = open_workspace(place, create=True)
    workspace.ingest(source, rate_hz=20, quiet=True)
    workspace.sets.create("all", workspace.episodes)
    return workspace


def lerobot_columns(folder: Path, names: dict[str, NDArray[Any]]) -> dict[str, tuple[str, list[int]]]:
    features = read_info(folder)["features"]
    return {
        name: (features[column]["dtype"], features[column]["shape"])
        for name in names
        if (column := name.replace("/", ".")) in features
    }


def test_lerobot_has_each_signal_and_so_has_an_export_of_that(
    ws: Workspace, signals: dict[str, NDArray[Any]], tmp_path: Path
) -> None:
    expected = {name: (str(v.dtype), [v[0].size]) for name, v in signals.items()}
    report = ws.export("all", tmp_path / "out", format="lerobot", quiet=True)
    assert lerobot_columns(tmp_path / "out", signals) == expected
    assert not [line for line in report.left_out if line.startswith("signal")]
    again = ingested(tmp_path / "out", tmp_path / "again")
    again.export("all", tmp_path / "second", format="lerobot", quiet=True)
    assert lerobot_columns(tmp_path / "second", signals) == expected
    for folder in ("out", "second"):
        rows = pq.read_table(next((tmp_path / folder / "data").rglob("*.parquet")))
        for name, stored in signals.items():
            got = np.array(rows[name.replace("/", ".")].to_pylist()[:STEPS])
            np.testing.assert_array_equal(got, stored)


def test_rlds_has_each_signal_where_its_source_has_it(
    ws: Workspace, signals: dict[str, NDArray[Any]], tmp_path: Path
) -> None:
    ws.export("all", tmp_path / "out", format="rlds", quiet=True)
    (folder,) = (path.parent for path in (tmp_path / "out").rglob("features.json"))
    described = json.loads((folder / "features.json").read_text())
    steps = described["featuresDict"]["features"]["steps"]["sequence"]["feature"]["featuresDict"]["features"]
    payload = records(folder)[0]
    for name, stored in signals.items():
        node = {"featuresDict": {"features": steps}}
        for part in name.split("/"):
            node = node["featuresDict"]["features"][part]
        assert node["tensor"]["dtype"] == str(stored.dtype)
        assert node["tensor"]["shape"].get("dimensions", []) == [str(size) for size in stored.shape[1:]]
        assert values(payload, f"steps/{name}") == stored.ravel().tolist()


def test_parquet_has_the_signals_of_each_step(
    ws: Workspace, signals: dict[str, NDArray[Any]], tmp_path: Path
) -> None:
    ws.export("all", tmp_path / "out", format="parquet", quiet=True)
    rows = pq.read_table(tmp_path / "out" / "steps.parquet")["signals"].to_pylist()[:STEPS]
    for name, stored in signals.items():
        got = [dict(row)[name] for row in rows]
        np.testing.assert_array_equal(got, stored.reshape(STEPS, -1))


def test_a_user_narrows_them_and_a_name_that_is_not_there_is_named(
    ws: Workspace, signals: dict[str, NDArray[Any]], tmp_path: Path
) -> None:
    first, *others = signals
    ws.export("all", tmp_path / "out", format="lerobot", signals=[first], quiet=True)
    assert list(lerobot_columns(tmp_path / "out", signals)) == [first]
    with pytest.raises(RequestError, match=f"no episode of the set has 'nothing'.*{others[0]}"):
        ws.export("all", tmp_path / "other", format="lerobot", signals=["nothing"], quiet=True)
    assert not (tmp_path / "other").exists()


def test_numbers_that_are_not_exactly_of_their_type_are_float32(tmp_path: Path) -> None:
    """Signals are stored as float32, which has neither the largest int32 nor NaN of a bool."""
    largest = np.full(107, 2**31 - 1, np.float32)[:, None]
    gaps = np.where(np.arange(107) % 9, 1.0, np.nan).astype(np.float32)[:, None]
    types: Any = {
        name: {"key": name, "dtype": dtype, "shape": []}
        for name, dtype in (("big", "int32"), ("gaps", "bool"))
    }
    record = make_record(0, cameras=(), metadata={"signal_types": types})
    extra = {"big": Signal(largest, ("big",)), "gaps": Signal(gaps, ("gaps",))}
    record = replace(record, trajectory=replace(record.trajectory, extra=extra))
    with open_workspace(tmp_path / "ws", create=True) as ws:
        make_set(ws, [record])
        for format in ("lerobot", "lerobot-v2.1", "lerobot-lance", "rlds"):
            ws.export("made", tmp_path / format, format=format, quiet=True)
    rows = pq.read_table(next((tmp_path / "lerobot" / "data").rglob("*.parquet")))
    assert rows["big"].to_pylist() == largest[:, 0].tolist()
    np.testing.assert_array_equal(rows["gaps"].to_pylist(), gaps[:, 0])
    stats = json.loads((tmp_path / "lerobot" / "meta" / "stats.json").read_text())
    assert stats["gaps"]["mean"] == [1.0] and stats["gaps"]["max"] == [1.0]


def test_names_that_lance_has_as_one_are_no_two_columns(tmp_path: Path) -> None:
    record = make_record(0, cameras=())
    extra = {
        name: Signal(np.ones((107, 1), np.float32), (name,)) for name in ("a/b_c", "a_b/c", "next_reward")
    }
    record = replace(record, trajectory=replace(record.trajectory, extra=extra))
    with open_workspace(tmp_path / "ws", create=True) as ws:
        report = ws.export(make_set(ws, [record]), tmp_path / "out", quiet=True)
    assert [line.partition(" of ")[0] for line in report.left_out] == ["signal a_b/c", "signal next_reward"]
    assert all("another meaning" in line for line in report.left_out)


def test_a_dropped_camera_is_not_lacking_and_a_plan_says_it_itself(tmp_path: Path) -> None:
    wrist = replace(FRONT, name="wrist")
    missing: Any = {"missing_cameras": ["wrist"]}
    records = [make_record(0, cameras=(FRONT, wrist)), make_record(1, cameras=(FRONT,), metadata=missing)]
    with open_workspace(tmp_path / "ws", create=True) as ws:
        make_set(ws, records)
        report = ws.export("made", tmp_path / "out", drop_cameras=["wrist"], quiet=True)
        assert not any("wrist" in line or "two cameras" in line for line in report.lacks)
        with pytest.raises(RequestError, match="a plan says which cameras are written"):
            ws.export("made", tmp_path / "plan", like="made", drop_cameras=["wrist"], quiet=True)
        with pytest.raises(RequestError, match="jsonl has texts of the sources and no signals"):
            ws.export("made", tmp_path / "jsonl", format="jsonl", signals=[], quiet=True)
