"""HDF5 files with unusable data: each fault has its own message."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ares.errors import SourceError
from ares.media import all_frames
from ares_ingest.hdf5 import values
from ares_ingest.hdf5.values import LONGEST_LIST, LONGEST_TEXT, read_attributes

STEPS = 9
# What robomimic writes, whose pictures stand upright.
ROBOMIMIC = {"env_args": json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": {}})}


CUT = "HDF5 file is cut or damaged"
CASES: dict[str, tuple[Callable[[Any, Path], object], str]] = {
    "no action": (lambda h5, path: h5.demo(path, actions=None, obs__x=h5.numbers(3, 2)), "episode holds no action"),
    "one number": (lambda h5, path: h5.demo(path, actions=np.float32(3)), "episode holds no action"),
    "words": (lambda h5, path: h5.demo(path, actions=[b"a", b"b"]), "episode holds no action"),
    "too wide": (lambda h5, path: h5.demo(path, actions=h5.numbers(3, 300)), "episode holds no action"),
    "no step": (lambda h5, path: h5.demo(path, actions=np.zeros((0, 7))), "episode holds no step"),
    "ALOHA": (lambda h5, path: h5.write(path, observations__qpos=h5.numbers(3, 14)), "episode holds no action"),
    "no demo": (lambda h5, path: h5.write(path, {"data": {}}), "file holds no episode"),
    "other": (lambda h5, path: h5.write(path, weights=h5.numbers(3)), "HDF5 file is of no known family"),
    "empty": (lambda h5, path: path.touch(), "HDF5 file is empty"),
    "text": (lambda h5, path: path.write_text("no HDF5"), CUT),
    "EgoDex": (
        lambda h5, path: h5.write(path, transforms__camera=h5.numbers(9, 4, 4), camera__intrinsic=h5.numbers(3, 3)),
        "episode holds no action and no state",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("write", "reason"), CASES.values(), ids=CASES)
def test_what_cannot_be_read_is_a_failing_item(
    h5: Any, tmp_path: Path, write: Callable[[Any, Path], object], reason: str
) -> None:
    write(h5, tmp_path / "a.hdf5")
    source = h5.opened(tmp_path / "a.hdf5")
    assert [h5.outcome(item) for item in source.items] == [reason] and source.total == 1


def test_lengths_that_disagree(h5: Any, tmp_path: Path) -> None:
    images = h5.pictures(STEPS + 1)
    path = h5.demo(
        tmp_path / "a.hdf5",
        {"data": ROBOMIMIC, "data/demo_0": {"num_samples": 3}},
        obs__joint_pos=h5.numbers(STEPS + 1, 7),
        obs__gripper_pos=h5.numbers(STEPS - 1, 2),
        obs__front=images,
        obs__side=h5.pictures(STEPS - 1),
        obs__top=h5.pictures(0),
    )
    record = h5.only(path)
    assert record.warnings == (
        "num_samples is not the number of actions",
        "obs/joint_pos is longer than the actions by one: the terminal one is not stored",
        "obs/gripper_pos is shorter than the actions",
        "camera front has more images than there are actions by one: the terminal one is not stored",
        "camera side lacks images",
        "camera top has no image",
    )
    (camera,) = record.episode.cameras
    assert np.array_equal(np.stack(list(all_frames(camera.media))), images[:STEPS])
    assert record.episode.state_names == tuple(f"joint_pos_{n}" for n in range(7))


def test_numbers_that_float32_cannot_hold(h5: Any, tmp_path: Path) -> None:
    actions = h5.numbers(STEPS, 2, dtype="float64")
    actions[2, 1], actions[3, 0] = 1e300, np.nan
    clock = np.arange(STEPS) + 1_688_000_000_000
    record = h5.only(
        h5.demo(
            tmp_path / "a.hdf5", actions=actions, clock=clock, count=clock % 7, small=np.full(STEPS, 2**24)
        )
    )
    assert set(record.warnings) == {
        "actions holds numbers that are not finite",
        "clock is not stored (integers too large for float32)",
        "episode has no obs, only what the simulator kept",
    }
    assert set(record.trajectory.extra) == {"count", "small"}


def test_compression_is_told_by_the_pictures(h5: Any, tmp_path: Path) -> None:
    rows = np.zeros((STEPS, 4000), np.uint8)
    for number, image in enumerate(h5.pictures()):
        data = np.asarray(cv2.imencode(".jpg", image)[1]).ravel()
        rows[number, : len(data)] = data
    arrays: dict[str, Any] = {"action": h5.numbers(STEPS, 14), "observations__images__cam_high": rows}
    wrong = h5.only(
        h5.write(
            tmp_path / "a.hdf5", {"/": {"compress": False}}, compress_len=np.full((1, STEPS), 7.0), **arrays
        )
    )
    assert wrong.warnings == ()
    assert len(wrong.episode.cameras) == 1 and len(list(all_frames(wrong.episode.cameras[0].media))) == STEPS
    arrays["observations__images__cam_high"] = np.full((STEPS, 50), 3, np.uint8)
    assert not h5.only(h5.write(tmp_path / "b.hdf5", **arrays)).episode.cameras


def test_attributes_that_are_no_json(h5: Any, tmp_path: Path) -> None:
    record = h5.only(h5.demo(tmp_path / "a.hdf5", {"data": {"env_args": "{", "env_info": "[1]"}}))
    assert record.warnings[:2] == ("env_args is no JSON object", "env_info is no JSON object")


def test_a_link_inside_the_file_is_followed_and_one_out_of_it_is_not(h5: Any, tmp_path: Path) -> None:
    images = h5.pictures()
    h5.demo(tmp_path / "parts" / "one.hdf5")
    path = h5.demo(tmp_path / "merged.hdf5", obs__front=images)
    with h5py.File(path, "a") as file:
        file["data/demo_1"] = h5py.SoftLink("/data/demo_0")
        file["data/demo_2"] = h5py.ExternalLink("parts/one.hdf5", "data/demo_0")
        file["elsewhere"] = h5py.ExternalLink("parts/one.hdf5", "data")
        file["data/demo_3"] = h5py.SoftLink("/elsewhere/demo_0")
        file["data/demo_4"] = h5py.SoftLink("/nowhere")
        file["data/demo_5"] = h5py.SoftLink("/data/demo_5")
        file["data/about"] = h5.numbers()
    _, linked, *refused = h5.opened(path).items
    (camera,) = linked.load().episode.cameras
    assert np.array_equal(np.stack(list(all_frames(camera.media))), images)
    assert [h5.outcome(item) for item in refused] == [
        *["HDF5 link leads to another file"] * 2,
        *["HDF5 link leads nowhere"] * 2,
    ]
    # Opening a pipe would wait for ever.
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(path, "a") as file:
        file["data/demo_6"] = h5py.ExternalLink(str(tmp_path / "pipe"), "data")
    *_, waiting = h5.opened(path).items
    assert h5.outcome(waiting) == "HDF5 link leads to another file"


def test_images_that_no_file_could_hold_are_refused_before_memory_is_taken(h5: Any, tmp_path: Path) -> None:
    path = h5.demo(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        file.create_dataset("data/demo_0/obs/front", (STEPS, 10**5, 10**5, 3), "u1", chunks=(1, 64, 64, 3))
    (item,) = h5.opened(path).items
    assert h5.outcome(item) == "image is too large"


def test_text_that_is_no_text(h5: Any, tmp_path: Path) -> None:
    problem = '{"language_instruction": "open \\ud800 it"}'
    path = h5.demo(tmp_path / "a.hdf5", {"data": {"problem_info": problem}})
    with h5py.File(path, "a") as file:
        file["data/demo_0"].attrs.create("note", b"caf\xe9", dtype=h5py.string_dtype())
    episode = h5.only(path).episode
    assert (episode.instruction, episode.metadata["note"]) == ("open ? it", "caf?")
    with h5py.File(path, "a") as file:
        file["data/demo_0"][b"caf\xe9"] = h5.numbers()
    (item,) = h5.opened(path).items
    assert h5.outcome(item) == "HDF5 file is cut or damaged"


def test_a_group_that_holds_itself(h5: Any, tmp_path: Path) -> None:
    with h5py.File(h5.demo(tmp_path / "a.hdf5"), "a") as file:
        file["data/demo_0/again"] = file["data/demo_0"]
        file["data/demo_0/soft"] = h5py.SoftLink("/data/demo_0")
    assert h5.only(tmp_path / "a.hdf5").episode.num_steps == STEPS


@pytest.fixture(scope="module")
def whole(h5: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    data: bytes = h5.demo(folder / "demo.hdf5", {"data": ROBOMIMIC}, obs__front=h5.pictures()).read_bytes()
    return data


@given(share=st.floats(0, 1, exclude_max=True))
def test_a_cut_file_is_a_failing_item(
    h5: Any, whole: bytes, tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    path = tmp_path_factory.mktemp("cut") / "demo.hdf5"
    path.write_bytes(whole[: int(share * len(whole))])
    (item,) = h5.opened(path).items
    assert h5.outcome(item) in ("HDF5 file is empty", "HDF5 file is cut or damaged")


def test_a_file_that_changes_after_it_was_opened(h5: Any, tmp_path: Path) -> None:
    path = h5.write(tmp_path / "a.hdf5", **{f"data__demo_{n}__actions": h5.numbers(3, 2) for n in range(2)})
    source = h5.opened(path)
    path.write_bytes(path.read_bytes()[:900])
    assert [h5.outcome(item) for item in source.items] == ["HDF5 file is cut or damaged"] * 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.array([np.nan, 1.0]), "not finite"),
        ("", "an empty text"),
        (h5py.Empty("f8"), "it has no value"),
        (np.zeros(LONGEST_LIST + 1), "too long for the metadata"),
        ("a" * (LONGEST_TEXT + 1), "too long for the metadata"),
        (np.array([1.0, 2.0]), ""),
        ("<mujoco/>", ""),
    ],
    ids=["NaN", "empty text", "no value", "long list", "long text", "numbers", "text"],
)
def test_a_constant_that_is_not_stored_has_its_true_reason(
    h5: Any, tmp_path: Path, value: object, reason: str
) -> None:
    path = h5.demo(tmp_path / "a.hdf5", {"data": {"env_args": '{"env_name": "Lift", "type": 1}'}})
    with h5py.File(path, "r+") as file:
        file["data/demo_0/initial_state/arm"] = value
    record = h5.only(path)
    told = [warning for warning in record.warnings if "initial_state" in warning]
    assert told == ([f"initial_state/arm is not stored ({reason})"] if reason else [])
    assert ("initial_state/arm" in record.episode.metadata) == (not reason)


def test_attributes_are_limited_by_their_number_and_not_by_that_of_the_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "input_budgets", lambda: SimpleNamespace(members=5))
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for number in range(8):
            file[f"x{number}"] = number
        file.attrs["robot"] = "arm"
        assert read_attributes(file) == {"robot": "arm"}
        file.create_group("y").attrs.update({f"a{number}": number for number in range(8)})
        with pytest.raises(SourceError, match=r"HDF5 group holds too many attributes.*8 of 5"):
            read_attributes(file["y"])
