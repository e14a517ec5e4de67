"""Several sources become one dataset by a plan: what is mapped, converted, padded, refused and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from ares import open as open_workspace
from ares.episode import Camera, Record, Signal
from ares.errors import RequestError
from ares.export import ExportReport, read_merge_plan
from ares.export.merge_apply import rename_text_cameras
from ares.export.segments import EpisodeSegments, ExportSegment
from ares.media import all_frames
from ares.workspace import Workspace
from ares_app.cli.main import main
from tests.ares.export.made_episodes import (
    FRONT,
    WRIST,
    make_record,
    make_set,
    read_again,
    read_info,
    read_manifest,
)
from tests.ares.export.segments import append, segment, source_producer

JOINTS = ("shoulder", "elbow", "wrist", "gripper")


def source(dataset: str, numbers: Sequence[int], cameras: Sequence[Camera], **fields: Any) -> list[Record]:
    """Episodes of one dataset with these cameras."""
    fields = {"steps": 107, "names": JOINTS, "reward": False, **fields}
    return [make_record(number, dataset=dataset, cameras=tuple(cameras), **fields) for number in numbers]


def make_plan(ws: Workspace, folder: Path, records: Sequence[Record]) -> tuple[Path, dict[str, Any]]:
    """The plan of the merge of these episodes, as the set "made"."""
    make_set(ws, records)
    return write_plan(ws, folder)


def write_plan(ws: Workspace, folder: Path) -> tuple[Path, dict[str, Any]]:
    path = folder / "plan.yaml"
    ws.write_merge_plan("made", path)
    return path, yaml.safe_load(path.read_text())


def save(path: Path, plan: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    return path


def rows_of(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    table = pq.read_table(folder / "data")
    return {name: np.array(table[name].to_pylist()) for name in table.column_names if "language" not in name}


def reasons_of(report: ExportReport) -> str:
    return "\n".join(str(change["reason"]) for change in report.changed)


def test_names_that_the_plan_says_become_one_dataset_with_copied_packets(
    ws: Workspace, tmp_path: Path
) -> None:
    first = source("one", range(3), [FRONT, WRIST])
    others = [replace(FRONT, name="cam_high"), replace(WRIST, name="cam_hand")]
    names = ("j1", "elbow", "j3", "jaw")
    second = source("two", range(3, 5), others, names=names)
    path, plan = make_plan(ws, tmp_path, [*first, *second])
    (two,) = (part for part in plan["sources"] if part["dataset"] == "two")
    empty = {"j1": "", "j3": "", "jaw": ""}
    assert (two["cameras"], two["state"], two["action"]) == ({"cam_high": "", "cam_hand": ""}, empty, empty)
    two["cameras"] = {"cam_high": "front", "cam_hand": "wrist"}
    two["state"] = two["action"] = {"j1": "shoulder", "j3": "wrist", "jaw": "gripper"}
    report = ws.export("made", tmp_path / "out", plan=save(path, plan), quiet=True)
    assert (report.episodes, report.failed, [part["path"] for part in report.datasets]) == (5, 0, ["."])
    assert report.encoded_frames == 0 and report.copied_packets == 5 * 2 * 107
    info = read_info(tmp_path / "out")
    assert info["features"]["observation.state"]["names"] == list(JOINTS)
    rows = rows_of(tmp_path / "out")
    expected = {record.episode.episode_id: record.trajectory.state for record in (*first, *second)}
    for entry in read_manifest(tmp_path / "out"):
        signal = expected[entry["episode_id"]]
        assert signal is not None
        written = rows["observation.state"][rows["episode_index"] == entry["index"]]
        assert np.array_equal(written, signal.values)
    own = {camera.name: next(all_frames(camera.media)).tobytes() for camera in (FRONT, WRIST)}
    episodes = read_again(tmp_path / "out")
    assert len(episodes) == 5
    for episode in episodes:
        assert {camera.name: next(all_frames(camera.media)).tobytes() for camera in episode.cameras} == own


def test_what_is_not_mapped_is_left_out_and_what_is_lacking_is_padded(ws: Workspace, tmp_path: Path) -> None:
    whole = source("one", range(2), [FRONT, WRIST])
    part = source("two", [2], [FRONT, replace(WRIST, name="side")], names=(*JOINTS[:3], "q9"))
    path, plan = make_plan(ws, tmp_path, [*whole, *part])
    assert plan["masks"] == ["camera", "state", "action"]
    report = ws.export("made", tmp_path / "out", plan=path, quiet=True)
    assert "state of two that the merged dataset does not have: q9" in report.left_out
    assert "camera of two that the merged dataset does not have: side" in report.left_out
    assert "action of two padded with zeros: gripper; most trainers read no mask" in reasons_of(report)
    rows = rows_of(tmp_path / "out")
    of_two = np.isclose(rows["mask.camera"], [1, 0]).all(axis=1)
    assert of_two.sum() == 107
    assert (rows["observation.state"][of_two, 3] == 0).all()
    assert (rows["mask.state"][of_two] == [1, 1, 1, 0]).all() and (rows["mask.state"][~of_two] == 1).all()
    pictures = [next(all_frames(episode.camera("wrist").media)) for episode in read_again(tmp_path / "out")]
    assert sorted(int(picture.max()) < 8 for picture in pictures) == [False, False, True]
    del plan["masks"]
    report = ws.export("made", tmp_path / "unmasked", plan=save(path, plan), quiet=True)
    assert (report.episodes, report.failed) == (2, 1)


def test_a_merged_dataset_is_merged_again_with_its_masks(ws: Workspace, tmp_path: Path) -> None:
    records = [*source("one", range(2), [FRONT]), *source("two", [2], [FRONT], names=JOINTS[:3])]
    path, _ = make_plan(ws, tmp_path, records)
    ws.export("made", tmp_path / "first", plan=path, quiet=True)
    with open_workspace(tmp_path / "again", create=True) as again:
        again.ingest(tmp_path / "first", quiet=True)
        again.sets.create("made", sorted(again.stores.tables.episodes.ids()), {})
        again.export("made", tmp_path / "second", like="first", quiet=True)
    masks = [rows_of(tmp_path / name)["mask.state"] for name in ("first", "second")]
    assert masks[0].sum() == masks[1].sum() == 321 * 4 - 107


def test_one_dataset_gives_rate_sizes_and_names_else_the_source_with_most(
    ws: Workspace, tmp_path: Path
) -> None:
    small = replace(FRONT, width=FRONT.width // 2, height=FRONT.height // 2)
    records = [
        *source("slow", range(3), [small], names=JOINTS[:3], rate_hz=10.0),
        *source("fast", [3], [FRONT, WRIST], rate_hz=30.0),
    ]
    _, plan = make_plan(ws, tmp_path, records)
    assert (plan["fps"], plan["state"], [*plan["cameras"]]) == (30.0, [*JOINTS], ["front", "wrist"])
    assert plan["cameras"]["front"]["width"] == FRONT.width
    report = ws.export("made", tmp_path / "out", like="slow", quiet=True)
    assert read_info(tmp_path / "out")["fps"] == 10
    assert [*read_manifest(tmp_path / "out")] and report.episodes == 4
    assert f"{FRONT.width}x{FRONT.height} fitted into {small.width}x{small.height}" in reasons_of(report)
    assert "state of fast that the merged dataset does not have: gripper" in report.left_out
    with pytest.raises(RequestError, match=r"no dataset 'none'.*slow"):
        ws.export("made", tmp_path / "none", like="none", quiet=True)


def test_a_black_camera_is_not_mapped(ws: Workspace, tmp_path: Path) -> None:
    records = [
        *source("one", range(2), [FRONT]),
        *source("two", [2], [replace(FRONT, flags=("black", "frozen"))]),
    ]
    path, plan = make_plan(ws, tmp_path, records)
    assert plan["masks"] == ["camera"]
    ws.export("made", tmp_path / "out", plan=path, quiet=True)
    mask = rows_of(tmp_path / "out")["mask.camera"]
    assert (mask == 0).sum() == 107


def test_robots_that_share_nothing_and_all_other_refusals_are_told_at_once(
    ws: Workspace, tmp_path: Path, capsys: Any
) -> None:
    records = [
        *moving_source("rad", range(8), FRONT, 1.0),
        *moving_source("deg", range(8, 12), FRONT, 180 / np.pi),
        *source("other", [12], [FRONT], names=tuple(f"leg_{number}" for number in range(30))),
    ]
    make_set(ws, records)
    line = [
        "export",
        "made",
        str(tmp_path / "out"),
        "--format",
        "lerobot",
        "--like",
        "rad",
        "-w",
        str(ws.path),
    ]
    assert main(line) == 2
    refused = [text for text in capsys.readouterr().err.splitlines() if "refused" in text or "become" in text]
    assert len([text for text in refused if "other: no dimension" in text]) == 1
    assert len([text for text in refused if "unit of" in text]) == 2


@pytest.mark.slow
def test_pictures_of_another_size_keep_their_sides(ws: Workspace, tmp_path: Path) -> None:
    path, plan = make_plan(ws, tmp_path, source("one", [0], [FRONT]))
    plan["cameras"]["front"] |= {"width": 128, "height": 64}
    report = ws.export("made", tmp_path / "out", plan=save(path, plan), quiet=True)
    assert report.reencoded == {"the plan has another size": 1}
    (episode,) = read_again(tmp_path / "out")
    frame = next(all_frames(episode.cameras[0].media)).astype(float)
    assert frame.shape == (64, 128, 3)
    assert frame[:, :28].max() < 40 and frame[:, 100:].max() < 40 and frame[:, 32:96].mean() > 40


@pytest.mark.slow
def test_units_that_differ_are_refused_until_the_plan_converts_them(ws: Workspace, tmp_path: Path) -> None:
    radians = moving_source("rad", range(8), FRONT, 1.0)
    degrees = moving_source("deg", range(8, 16), FRONT, 180 / np.pi)
    path, plan = make_plan(ws, tmp_path, [*radians, *degrees])
    with pytest.raises(RequestError, match=r"unit of state.arm: deg in deg; rad in rad; name the conversion"):
        ws.export("made", tmp_path / "none", plan=path, quiet=True)
    plan["convert"] = [f"deg/{signal}.arm: deg -> rad" for signal in ("state", "action")]
    ws.export("made", tmp_path / "out", plan=save(path, plan), quiet=True)
    assert np.abs(rows_of(tmp_path / "out")["observation.state"]).max() < 4


def moving_source(dataset: str, numbers: Sequence[int], camera: Camera, factor: float) -> list[Record]:
    """Episodes of an arm that moves slowly within two radians and a half, times a factor."""
    records = []
    for record in source(dataset, numbers, [camera], names=("joint_0", "joint_1", "joint_2")):
        rng = np.random.default_rng(int(record.episode.key))
        ends = rng.uniform(-2.5, 2.5, (4, 3))
        times = np.linspace(0, 3, 107)
        path = np.stack([np.interp(times, range(4), ends[:, number]) for number in range(3)], axis=1)
        signal = Signal((path * factor).astype(np.float32), ("joint_0", "joint_1", "joint_2"))
        trajectory = replace(record.trajectory, state=signal, action=signal)
        records.append(replace(record, trajectory=trajectory))
    return records


def test_exchanged_cameras_are_a_question(ws: Workspace, tmp_path: Path) -> None:
    exchanged = [replace(FRONT, name="wrist"), replace(WRIST, name="front")]
    make_set(ws, [*source("one", range(4), [FRONT, WRIST]), *source("two", range(4, 8), exchanged)])
    report = ws.export("made", tmp_path / "out", like="one", quiet=True)
    lines = [line for line in report.unknown if line.startswith("view of camera")]
    assert len(lines) == 2 and "better as camera" in lines[0] and "a spec of the dataset" in lines[0]


def test_a_source_that_is_not_used_is_counted(ws: Workspace, tmp_path: Path, capsys: Any) -> None:
    records = [
        *source("one", range(2), [FRONT]),
        *source("raw", [2], [FRONT], names=("qpos_17", "qpos_18")),
    ]
    path, plan = make_plan(ws, tmp_path, records)
    assert plan["sources"][1]["state"] == {"qpos_17": "", "qpos_18": ""}
    plan["sources"][1]["use"] = False
    line = ["export", "made", str(tmp_path / "out"), "--format", "lerobot", "-w", str(ws.path)]
    assert main([*line, "--plan", str(save(path, plan))]) == 0
    assert "episodes of raw that the plan does not use: 1" in capsys.readouterr().out


def test_texts_are_one_task_only_if_equal_but_for_case_and_punctuation(ws: Workspace, tmp_path: Path) -> None:
    texts = ["Pick up the blue cup.", "pick up the blue cup", "pick up the pink cup", "take the blue cup"]
    records = [
        make_record(number, dataset="one", cameras=(FRONT,), instruction=text, instructions=(text,))
        for number, text in enumerate([texts[0], *texts])
    ]
    path, plan = make_plan(ws, tmp_path, records)
    assert plan["tasks"] == {texts[0]: texts[:2]}
    report = ws.export("made", tmp_path / "out", plan=path, quiet=True)
    assert report.tasks == 3


CONTRADICTIONS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda plan: plan["sources"][0].update(cameras={"front": "top"}), "camera 'top' is not in the merged"),
    (lambda plan: plan["sources"][0].update(state={"a": "wrist", "b": "wrist"}), "two state names become"),
    (lambda plan: plan["sources"][0].update(use=False), "no source is used"),
    (lambda plan: plan["sources"].append(plan["sources"][0]), "the same source is listed twice"),
    (lambda plan: plan.update(tasks={"a": ["x"], "b": ["x"]}), "'x' stands for two tasks"),
    (lambda plan: plan.update(fps=-3), "fps"),
    (lambda plan: plan.update(fps=float("inf")), "fps"),
    (lambda plan: plan.update(colour="red"), "colour"),
    (lambda plan: plan.update(plan=1), "--write-plan"),
]


def test_a_plan_that_contradicts_itself_is_one_line_with_all_that_does(ws: Workspace, tmp_path: Path) -> None:
    path, plan = make_plan(ws, tmp_path, source("one", [0], [FRONT]))
    for change, message in CONTRADICTIONS:
        changed = deepcopy(plan)
        change(changed)
        with pytest.raises(RequestError) as caught:
            read_merge_plan(save(path, changed))
        assert message in str(caught.value) and "\n" not in str(caught.value)
    for change, _ in (CONTRADICTIONS[0], CONTRADICTIONS[4]):
        change(plan)
    with pytest.raises(RequestError, match=r"two tasks \| .*'top' is not in"):
        read_merge_plan(save(path, plan))


@pytest.mark.parametrize(
    "text", ["", "[1, 2]", "plan: {", "plan: 2\nset: a\nsources: []", "&a [*a]", "[" * 20_000]
)
def test_a_file_that_is_no_plan_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(RequestError, match="the plan"):
        read_merge_plan(path)


def test_a_plan_is_never_written_over(ws: Workspace, tmp_path: Path) -> None:
    make_set(ws, source("one", [0], [FRONT]))
    path = tmp_path / "plan.yaml"
    path.write_text("mine")
    with pytest.raises(RequestError, match="exists already"):
        ws.write_merge_plan("made", path)
    assert path.read_text() == "mine"


def test_the_command_says_what_to_do_with_a_plan_that_is_there(
    ws: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_set(ws, [*source("one", range(3), [FRONT]), *source("two", range(3, 6), [FRONT])])
    command = ["export", "made", str(tmp_path / "out"), "-w", str(ws.path)]
    assert main([*command, "--write-plan", str(tmp_path / "plan.yaml")]) == 0
    assert "None" not in capsys.readouterr().out
    assert main([*command, "--write-plan", str(tmp_path / "plan.yaml")]) == 2
    assert "remove it, name a new file, or export with --plan" in capsys.readouterr().err
    plan = yaml.safe_load((tmp_path / "plan.yaml").read_text())
    command += ["--format", "parquet", "--plan", str(save(tmp_path / "plan.yaml", plan))]
    assert main(command) == 0 and main(command) == 0
    assert "already there" in capsys.readouterr().out
    save(
        tmp_path / "plan.yaml", plan | {"sources": [plan["sources"][0], plan["sources"][1] | {"use": False}]}
    )
    assert main(command) == 2, "another plan is another export"


def test_an_episode_of_a_source_that_the_plan_lacks_fails_alone(ws: Workspace, tmp_path: Path) -> None:
    one, two = (
        source("one", [0], [FRONT]),
        source("two", [1], [FRONT]),
    )
    path, plan = make_plan(ws, tmp_path, one)
    save(path, plan)
    ws.stores.tables.episodes.add(two)
    ws.sets.create("both", [record.episode.episode_id for record in (*one, *two)], {})
    report = ws.export("both", tmp_path / "out", plan=path, quiet=True)
    assert (report.episodes, report.failed) == (1, 1)
    assert "the plan says nothing of its source" in json.dumps(report.failures)


def test_two_kinds_of_episodes_of_one_dataset_do_not_get_the_same_names(
    ws: Workspace, tmp_path: Path
) -> None:
    """One of them may be in degrees: a conversion for the dataset could not distinguish them."""
    records = [
        *source("one", range(2), [FRONT]),
        *source("one", [2], [FRONT], names=("j1", "j2", "j3", "jaw")),
    ]
    path, plan = make_plan(ws, tmp_path, records)
    moved = dict(zip(("j1", "j2", "j3", "jaw"), JOINTS, strict=True))
    plan["sources"][0] |= {"state": moved, "action": moved}
    with pytest.raises(RequestError, match="2 kinds of episodes of one the same names"):
        ws.export("made", tmp_path / "out", plan=save(path, plan), quiet=True)


def test_a_text_about_a_camera_follows_it_to_its_new_name(ws: Workspace, tmp_path: Path) -> None:
    records = source("one", [0], [FRONT, WRIST])
    path, plan = make_plan(ws, tmp_path, records)
    plan["sources"][0]["cameras"] = {"front": "wrist", "wrist": "front"}
    episode = records[0].episode
    texts = [
        ExportSegment(
            episode_id=episode.episode_id,
            annotation_id=name,
            segment_id=name,
            annotator="source_vqa",
            maker_id="m",
            start_seconds=0.5,
            stop_seconds=0.5,
            camera=name,
            style="vqa",
            text="what is it?",
            author="person",
            state="person",
            value={"camera": f"observation.images.{name}", "role": "user"},
        )
        for name in ("front", "wrist", "")
    ]
    found = {episode.episode_id: EpisodeSegments(tuple(texts))}
    read = read_merge_plan(save(path, plan))
    renamed = rename_text_cameras(read, [episode], found)[episode.episode_id].segments
    assert [segment.camera for segment in renamed] == ["wrist", "front", ""]
    assert ["camera" in segment.value for segment in renamed] == [False, False, True]
    plan["sources"][0]["cameras"] = {"front": "wrist", "wrist": ""}
    read = read_merge_plan(save(path, plan))
    renamed = rename_text_cameras(read, [episode], found)[episode.episode_id].segments
    assert [segment.camera for segment in renamed] == ["wrist", "wrist of one", ""]


@pytest.mark.slow
def test_segments_of_a_merged_parquet_export_name_its_cameras(ws: Workspace, tmp_path: Path) -> None:
    first = source("one", range(2), [FRONT, WRIST])
    cameras = [replace(FRONT, name="cam_high"), replace(WRIST, name="cam_hand")]
    records = [*first, *source("two", [2], cameras)]
    make_set(ws, records)
    producer = source_producer("vqa")
    episode_id = records[2].episode.episode_id
    made = [
        segment(
            producer,
            episode_id,
            (0.5, 0.5),
            {"text": f"what does {camera} see?", "style": "vqa", "role": "user"},
            camera=camera,
            part=camera,
        )
        for camera in ("cam_high", "cam_hand", "")
    ]
    append(ws, [producer], made)
    path, plan = write_plan(ws, tmp_path)
    plan["sources"][1]["cameras"] = {"cam_high": "front", "cam_hand": "wrist"}
    ws.export("made", tmp_path / "out", format="parquet", plan=save(path, plan), quiet=True)
    rows = pq.read_table(tmp_path / "out" / "segments.parquet").to_pylist()
    assert {(row["text"].split()[2], row["camera"]) for row in rows} == {
        ("cam_high", "front"),
        ("cam_hand", "wrist"),
        ("see?", ""),
    }
