"""What a source has of several episodes in one file, or beside its episodes, is read part by part or named."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import cv2
import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import zarr
from numpy.random import Generator
from numpy.typing import NDArray

from ares.checks import camera_features
from ares.episode import Camera, NotRead, Record, SourceArray
from ares.errors import SourceError
from ares.media import all_frames
from ares.settings import settings_from_environment
from ares.workspace import open_workspace
from ares_ingest.base import SourceOptions
from ares_ingest.pipeline.unread import account_for_unread
from tests.ingesting import ingest_paths, open_sources

SEEDS = [*range(2), *(pytest.param(number, marks=pytest.mark.nightly) for number in range(2, 100))]
FLAGS = ["terminals", "timeouts", "dones", "done", "is_last", "truncations", "terminated"]


def write_video(path: Path, first: int, frames: int, rate: int = 10) -> None:
    """A video whose frames have the grey level `first`, `first` + 2 and so on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(frames):
            picture = np.full((48, 64, 3), first + 2 * number, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def load_records(path: Path, spec: Path | None = None) -> list[Record]:
    options = SourceOptions(spec=str(spec) if spec else "")
    return [item.load() for source in open_sources([str(path)], options) for item in source.items]


def grey_levels(camera: Camera) -> NDArray[np.float64]:
    return np.array([frame.mean() for frame in all_frames(camera.media)])


@pytest.mark.parametrize("says", ["episode_ends", "episode_lengths", "flags"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".zarr"])
def test_steps_of_several_episodes_in_one_array_are_cut_where_they_end(
    suffix: str, seed: int, says: str, tmp_path: Path
) -> None:
    """Rows after the last end are of no episode: they are one item that fails, with their number."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 30, rng.integers(2, 7))
    ends, unread = np.cumsum(lengths), 0 if says == "flags" else int(rng.choice([0, 1, 40]))
    steps = int(lengths.sum()) + unread
    arrays: dict[str, Any] = {
        "observations": rng.normal(size=(steps, 11)).astype(np.float32),
        "actions": rng.normal(size=(steps, 3)).astype(np.float32),
    }
    if says == "flags":
        more = int(rng.integers(2))  # a value for each observation, of which there is one more
        for name in rng.permutation(FLAGS)[: rng.integers(1, 3)]:
            arrays[name] = np.zeros(steps + more, str(rng.choice(["bool", "uint8", "float32"])))
        for end in ends:  # each episode ends by one of the flags; the last may end by none
            arrays[rng.choice([name for name in arrays if name in FLAGS])][end - 1] = True
    else:
        arrays[says] = ends if says == "episode_ends" else lengths
    (tmp_path / "d").mkdir()
    path, spec = tmp_path / "d" / f"flat{suffix}", tmp_path / "spec.yaml"
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        file: Any = h5py.File(path, "w") if suffix == ".hdf5" else zarr.open_group(str(path), mode="w")
        for name, values in arrays.items():
            file.create_dataset(name, data=values) if suffix == ".hdf5" else file.create_array(
                name, data=values
            )
        if suffix == ".hdf5":
            file.close()
    stated = next(name for name in arrays if name not in ("observations", "actions"))
    spec.write_text(
        "reference: us\naction: [{key: actions, names: [a]}]\nstate: [{key: observations, names: [s]}]\n"
        + (f"episode_ends: {stated}\n" if rng.random() < 0.5 and len(arrays) == 3 else "")
    )
    (source,) = open_sources([str(tmp_path / "d")], SourceOptions(spec=str(spec)))
    items = list(source.items)
    assert source.total == len(items) == len(lengths) + bool(unread)
    for item in items[len(lengths) :]:
        with pytest.raises(
            SourceError, match=f"rows after the last end in {says} are not read: .* {unread} row"
        ):
            item.load()
    records = [item.load() for item in items[: len(lengths)]]
    assert [record.episode.num_steps for record in records] == lengths.tolist()
    for record, stop, length in zip(records, ends, lengths, strict=True):
        state, action = record.trajectory.state, record.trajectory.action
        assert state and action
        np.testing.assert_array_equal(state.values, arrays["observations"][stop - length : stop])
        np.testing.assert_array_equal(action.values, arrays["actions"][stop - length : stop])


@pytest.mark.parametrize("suffix", [".npz", ".hdf5"])
def test_an_episode_that_ends_after_its_arrays_fails_alone(suffix: str, tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"actions": np.zeros((50, 3)), "episode_ends": np.array([30, 60])}
    (tmp_path / "d").mkdir()
    if suffix == ".npz":
        np.savez(tmp_path / "d" / "flat.npz", **arrays)
    else:
        with h5py.File(tmp_path / "d" / "flat.hdf5", "w") as file:
            file.update(arrays)
    (tmp_path / "spec.yaml").write_text("reference: us\naction: [{key: actions, names: [a]}]\n")
    (source,) = open_sources([str(tmp_path / "d")], SourceOptions(spec=str(tmp_path / "spec.yaml")))
    first, second = source.items
    assert first.load().episode.num_steps == 30
    with pytest.raises(SourceError, match=r"end before|cannot be stored"):
        second.load()


def test_a_goal_that_stays_reached_cuts_no_episode(tmp_path: Path) -> None:
    done = np.arange(40) >= 30
    np.savez(tmp_path / "a.npz", state=np.ones((40, 2)), action=np.zeros((40, 2)), done=done)
    assert [record.episode.num_steps for record in load_records(tmp_path)] == [40]


def rename(rng: Generator, names: list[str]) -> str:
    name = str(rng.choice(names))
    return str(rng.choice([name, name.title(), name.upper()]))


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_cut_clips_out_of_one_video_by_frames(seed: int, tmp_path: Path) -> None:
    rng, frames = np.random.default_rng(seed), 60
    write_video(tmp_path / "long_01.mp4", 30, frames, rate=int(rng.choice([10, 25, 30])))
    cuts = np.sort(rng.choice(np.arange(1, frames), rng.integers(2, 6), replace=False))
    spans = list(zip((0, *cuts.tolist()), (*cuts.tolist(), frames), strict=True))
    header = [
        "id",
        "video_id",
        "narration",
        rename(rng, ["start_frame"]),
        rename(rng, ["stop_frame", "end_frame"]),
    ]
    rows = [[f"c{n}", "long_01", f"do part {n}", str(a), str(b)] for n, (a, b) in enumerate(spans)]
    mark = str(rng.choice([",", ";"]))
    (tmp_path / "clips.csv").write_text("\n".join(mark.join(row) for row in [header, *rows]))
    records = load_records(tmp_path)
    assert [record.episode.instruction for record in records] == [row[2] for row in rows]
    for record, (start, stop) in zip(records, spans, strict=True):
        (camera,) = record.episode.cameras
        np.testing.assert_allclose(grey_levels(camera), 30 + 2 * np.arange(start, stop), atol=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_cameras_pair_by_number_and_a_table_tells_of_them(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    cameras = rng.permutation(["front", "wrist", "cam_high", "side", "left_wrist"])[
        : rng.integers(2, 4)
    ].tolist()
    numbers = (int(rng.integers(0, 5)) + np.arange(rng.integers(2, 5))).tolist()
    pattern = str(
        rng.choice(["{camera}_{number:03d}.mp4", "{camera}-{number}.mp4", "cam_{camera}/{number}.mp4"])
    )
    for number in numbers:
        for place, camera in enumerate(cameras):
            write_video(tmp_path / pattern.format(camera=camera, number=number), 20 + 20 * place + number, 5)
    header = [
        rename(rng, ["episode", "id", "trial"]),
        rename(rng, ["task", "prompt", "language", "instruction"]),
        rename(rng, ["success", "ok"]),
    ]
    rows = [[str(number), f"task {number}", str(number % 2)] for number in numbers]
    mark = str(rng.choice([",", ";"]))
    text = "\n".join(mark.join(row) for row in [header, *rows])
    (tmp_path / "notes.csv").write_text(("\ufeff" if rng.random() < 0.5 else "") + text)
    records = load_records(tmp_path)
    assert len(records) == len(numbers)
    for record, number in zip(records, numbers, strict=True):
        assert (record.episode.instruction, record.episode.success) == (f"task {number}", bool(number % 2))
        levels = sorted(grey_levels(camera)[0] for camera in record.episode.cameras)
        np.testing.assert_allclose(
            levels, [20 + 20 * place + number for place in range(len(cameras))], atol=2
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_each_cut_picture_is_found_and_no_other(seed: int, tmp_path: Path) -> None:
    rng, count = np.random.default_rng(seed), 40
    broken = set(rng.choice(count, rng.integers(1, 8), replace=False).tolist())
    suffix = str(rng.choice([".jpg", ".png"]))
    with h5py.File(tmp_path / "episode_0.hdf5", "w") as file:
        file["action"] = file["observations/qpos"] = rng.normal(size=(count, 7))
        type_ = h5py.vlen_dtype(np.uint8)
        images = file.create_dataset("observations/images/front", (count,), dtype=type_)
        for number in range(count):
            data = cv2.imencode(suffix, rng.integers(0, 255, (48, 64, 3), np.uint8))[1]
            size = int(len(data) * rng.uniform(0.4, 0.9)) if number in broken else len(data)
            images[number] = data[:size]
    (record,) = load_records(tmp_path)
    (features,) = camera_features(record.episode.cameras)
    rate_hz = record.episode.cameras[0].media.rate_hz
    assert {round(second * rate_hz) for second in features.damaged} == broken
    assert features.num_frames == count - len(broken) and not features.failure


def test_pictures_after_a_broken_one_are_decoded_one_by_one(tmp_path: Path) -> None:
    data = np.frombuffer(cv2.imencode(".jpg", np.zeros((480, 640, 3), np.uint8))[1].tobytes(), np.uint8)
    with h5py.File(tmp_path / "episode_0.hdf5", "w") as file:
        file["action"] = file["observations/qpos"] = np.random.default_rng(0).normal(size=(60, 7))
        images = file.create_dataset("observations/images/front", (60,), dtype=h5py.vlen_dtype(np.uint8))
        for number in range(60):
            images[number] = data[:200] if number == 1 else data
    (record,) = load_records(tmp_path)
    tracemalloc.start()
    (features,) = camera_features(record.episode.cameras)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert features.num_frames == 59 and peak < 20 * 480 * 640 * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_not_read_is_named_and_counts_where_the_episode_lacks_it(seed: int, tmp_path: Path) -> None:
    """Pictures of two cameras in one array are no colour camera; beside another camera they are only named."""
    rng, steps = np.random.default_rng(seed), 12
    name = "".join(rng.choice(list("abcdefgh"), 6))
    pictures = rng.integers(0, 255, (steps, 32, 40, int(rng.choice([6, 9]))), np.uint8)
    arrays = {"state": rng.normal(size=(steps, 7)), "action": rng.normal(size=(steps, 7)), name: pictures}
    for has_camera in (False, True):
        folder = tmp_path / f"d{has_camera}"
        folder.mkdir()
        camera = {"front": pictures[..., :3].copy()} if has_camera else {}
        content: dict[str, Any] = {**arrays, **camera}
        np.savez(folder / "a.npz", **content)
        workspace = open_workspace(str(tmp_path / f"ws{has_camera}"), settings_from_environment({}))
        counts = ingest_paths(workspace.stores, [str(folder)], quiet=True)
        not_read: Any = counts.to_json()["not_read"]
        (unread,) = not_read
        assert name in str(unread["reason"]) and unread["count"] == 1
        assert counts.incomplete == (not has_camera)


def test_what_is_not_read_goes_by_keys_and_types_and_not_by_words(tmp_path: Path) -> None:
    """A key within another word is named; a list that is cut says how many more; a structure is no text."""
    np.savez(tmp_path / "a.npz", action=np.ones((12, 7)))
    (record,) = load_records(tmp_path)
    keys = ["own", "action_text", *(f"part {number}" for number in range(70))]
    dtypes = ["struct<x: double>", "string", *["float64"] * 70]
    arrays = [
        SourceArray(key=key, use="unused", shape=(12,), dtype=dtype)
        for key, dtype in zip(keys, dtypes, strict=True)
    ]
    warnings = ("clock is not known, left out", NotRead("part 3 is broken", "part 3"))
    done = account_for_unread(replace(record, arrays=tuple(arrays), warnings=warnings))
    unread = [warning for warning in done.warnings if isinstance(warning, NotRead)]
    assert unread[0] == "part 3 is broken" and unread[-1] == "not read: 7 arrays more"
    assert unread[1].startswith("not read: own (struct") and "state (or action)" in unread[1]
    assert unread[2] == "not read: action_text (string, T)" and len(unread) == 66


def test_only_columns_of_a_table_that_are_kept_nowhere_are_not_read(tmp_path: Path) -> None:
    folder, steps = tmp_path / "d" / "episode_0", 20
    (folder / "cam").mkdir(parents=True)
    lines = ["timestamp,frame,state_0,action_0,operator,instruction,picture,phase,nothing"]
    for row in range(steps):
        phase = "reach" if row < 10 else "lift"
        lines.append(f"{row / 10},{row},{row**0.5},{row**0.4},anna,pick it,cam/{row:04d}.png,{phase},")
        cv2.imwrite(str(folder / "cam" / f"{row:04d}.png"), np.full((48, 64, 3), 5 * row, np.uint8))
    (folder / "data.csv").write_text("\n".join(lines))
    workspace = open_workspace(str(tmp_path / "ws"), settings_from_environment({}))
    report = ingest_paths(workspace.stores, [str(tmp_path / "d")], quiet=True).to_report()
    not_read = [part.reason for part in report.warnings if isinstance(part.reason, NotRead)]
    assert not_read == [
        "not read: nothing (T)",
        "not read: phase (str, T)",
    ]
