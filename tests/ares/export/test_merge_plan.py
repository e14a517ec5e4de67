"""Several sources become one dataset by a plan: what is mapped, asked, converted, padded, refused and written."""

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
from hypothesis import given, settings, strategies as st

from app.cli.main import main
from ares import open as open_workspace
from ares.episode import Camera, Record, Signal
from ares.errors import RequestError
from ares.export import OpenQuestionsError, open_questions, propose_merge_plan, read_merge_plan
from ares.export.merge_apply import rename_text_cameras
from ares.export.merge_plan import ASK, DROP, match_dimensions
from ares.export.segments import EpisodeSegments, ExportSegment
from ares.media import all_frames
from ares.workspace import Workspace
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
from tests.generators.merged_sources import merged_sources

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


def save(path: Path, plan: dict[str, Any], confirm: bool = True) -> Path:
    for entry in plan.get("confirm", ()):
        entry["ok"] = confirm
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    return path


def confirmation_texts(plan: dict[str, Any]) -> str:
    return "\n".join(entry["text"] for entry in plan.get("confirm", ()))


def rows_of(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    table = pq.read_table(folder / "data")
    return {name: np.array(table[name].to_pylist()) for name in table.column_names if "language" not in name}


def test_renamed_cameras_and_joints_become_one_dataset_with_copied_packets(
    ws: Workspace, tmp_path: Path
) -> None:
    first = source("one", range(3), [FRONT, WRIST])
    others = [replace(FRONT, name="cam_high"), replace(WRIST, name="cam_hand")]
    second = source("two", range(3, 5), others, names=("j1", "j2", "j3", "jaw"))
    path, plan = make_plan(ws, tmp_path, [*first, *second])
    assert "cam_high of two is front" in confirmation_texts(
        plan
    ) and "j1, j2, j3 are shoulder, elbow, wrist" in confirmation_texts(plan)
    with pytest.raises(OpenQuestionsError, match="confirm"):
        ws.export("made", tmp_path / "early", plan=path, quiet=True)
    assert not (tmp_path / "early").exists()
    save(path, plan)
    report = ws.export("made", tmp_path / "out", plan=path, quiet=True)
    assert (report.episodes, report.failed, [part["path"] for part in report.datasets]) == (5, 0, ["."])
    assert report.encoded_frames == 0 and report.copied_packets == 5 * 2 * 107
    info = read_info(tmp_path / "out")
    assert info["features"]["observation.state"]["names"] == list(JOINTS)
    assert {"observation.images.front", "observation.images.wrist"} <= info["features"].keys()
    rows = rows_of(tmp_path / "out")
    expected = {record.episode.episode_id: record.trajectory.state for record in (*first, *second)}
    manifest = read_manifest(tmp_path / "out")
    for entry in manifest:
        signal = expected[entry["episode_id"]]
        assert signal is not None
        written = rows["observation.state"][rows["episode_index"] == entry["index"]]
        assert np.array_equal(written, signal.values)
    assert yaml.safe_load((tmp_path / "out/plan.yaml").read_text())["sources"] == plan["sources"]
    own = {camera.name: next(all_frames(camera.media)).tobytes() for camera in (FRONT, WRIST)}
    episodes = read_again(tmp_path / "out")
    assert len(episodes) == 5
    for episode in episodes:
        assert {camera.name: next(all_frames(camera.media)).tobytes() for camera in episode.cameras} == own


def test_what_a_source_lacks_is_padded_and_a_mask_says_so(ws: Workspace, tmp_path: Path) -> None:
    whole = source("one", range(2), [FRONT, WRIST])
    part = source("two", [2], [FRONT], names=JOINTS[:3])
    path, plan = make_plan(ws, tmp_path, [*whole, *part])
    assert "two lacks camera wrist: black pictures" in confirmation_texts(
        plan
    ) and "two lacks state gripper" in confirmation_texts(plan)
    ws.export("made", tmp_path / "out", plan=save(path, plan), quiet=True)
    rows = rows_of(tmp_path / "out")
    of_two = np.isclose(rows["mask.camera"], [1, 0]).all(axis=1)
    assert of_two.sum() == 107
    assert (rows["observation.state"][of_two, 3] == 0).all() and (
        rows["mask.state"][of_two] == [1, 1, 1, 0]
    ).all()
    assert (rows["mask.state"][~of_two] == 1).all() and (rows["mask.camera"][~of_two] == 1).all()
    pictures = [next(all_frames(episode.camera("wrist").media)) for episode in read_again(tmp_path / "out")]
    assert sorted(int(picture.max()) < 8 for picture in pictures) == [False, False, True]


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
def test_units_that_differ_are_converted_where_a_person_confirms_it(ws: Workspace, tmp_path: Path) -> None:
    radians = moving_source("rad", range(8), FRONT, 1.0)
    degrees = moving_source("deg", range(8, 12), FRONT, 180 / np.pi)
    path, plan = make_plan(ws, tmp_path, [*radians, *degrees])
    assert plan["convert"] and "unit" in confirmation_texts(plan)
    with pytest.raises(OpenQuestionsError):
        ws.export("made", tmp_path / "early", plan=save(path, plan, confirm=False), quiet=True)
    ws.export("made", tmp_path / "out", plan=save(path, plan), quiet=True)
    assert np.abs(rows_of(tmp_path / "out")["observation.state"]).max() < 4
    del plan["convert"]
    with pytest.raises(RequestError, match="mean different things"):
        ws.export("made", tmp_path / "none", plan=save(path, plan), quiet=True)


def moving_source(dataset: str, numbers: Sequence[int], camera: Camera, factor: float) -> list[Record]:
    """Episodes of an arm that moves slowly within a radian and a half, times a factor."""
    records = []
    for record in source(dataset, numbers, [camera], names=("joint_0", "joint_1", "joint_2")):
        rng = np.random.default_rng(int(record.episode.key))
        ends = rng.uniform(-1.5, 1.5, (4, 3))
        times = np.linspace(0, 3, 107)
        path = np.stack([np.interp(times, range(4), ends[:, number]) for number in range(3)], axis=1)
        signal = Signal((path * factor).astype(np.float32), ("joint_0", "joint_1", "joint_2"))
        trajectory = replace(record.trajectory, state=signal, action=signal)
        records.append(replace(record, trajectory=trajectory))
    return records


def test_exchanged_cameras_are_asked_for(ws: Workspace, tmp_path: Path) -> None:
    exchanged = [replace(FRONT, name="wrist"), replace(WRIST, name="front")]
    records = [
        *source("one", range(3), [FRONT, WRIST]),
        *source("two", range(3, 5), exchanged),
    ]
    path, plan = make_plan(ws, tmp_path, records)
    assert plan["sources"][1]["cameras"] == {"front": ASK, "wrist": ASK}
    assert "look exchanged" in confirmation_texts(plan)
    with pytest.raises(OpenQuestionsError, match="which camera is 'wrist', 'front'"):
        read_merge_plan(save(path, plan))


def test_a_source_that_is_not_used_is_counted(ws: Workspace, tmp_path: Path, capsys: Any) -> None:
    records = [
        *source("one", range(2), [FRONT]),
        *source("raw", [2], [FRONT], names=("qpos_17", "qpos_18")),
    ]
    path, plan = make_plan(ws, tmp_path, records)
    assert plan["sources"][1]["state"] == {"qpos_17": ASK, "qpos_18": ASK}
    plan["sources"][1]["use"] = False
    line = ["export", "made", str(tmp_path / "out"), "--format", "lerobot", "-w", str(ws.path)]
    assert main([*line, "--plan", str(save(path, plan))]) == 0
    assert "episodes of raw that the plan does not use: 1" in capsys.readouterr().out


@pytest.mark.slow
def test_wordings_of_one_task_are_offered_and_written_as_one(ws: Workspace, tmp_path: Path) -> None:
    texts = ["Pick up the mug.", "pick up the mug", "take the mug", "open the drawer"]
    records = [
        make_record(number, dataset="one", cameras=(FRONT,), instruction=text, instructions=(text,))
        for number, text in enumerate([texts[0], *texts])
    ]
    path, plan = make_plan(ws, tmp_path, records)
    assert plan["tasks"] == {"Pick up the mug.": ["Pick up the mug.", "pick up the mug", "take the mug"]}
    report = ws.export("made", tmp_path / "out", plan=save(path, plan), quiet=True)
    assert report.tasks == 2


CONTRADICTIONS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda plan: plan["sources"][0]["cameras"].update(front="top"), "camera 'top' is not in the merged"),
    (lambda plan: plan["sources"][0]["state"].update(elbow="shoulder"), "two state names become 'shoulder'"),
    (lambda plan: plan["sources"][0]["state"].update(elbow=DROP), "nothing becomes state 'elbow'"),
    (lambda plan: plan["sources"][0].update(pad=["state nose"]), "'state nose' is no camera or dimension"),
    (lambda plan: plan["sources"][0].update(use=False), "no source is used"),
    (lambda plan: plan["sources"].append(plan["sources"][0]), "the same source is listed twice"),
    (lambda plan: plan.update(fps=-3), "fps"),
    (lambda plan: plan.update(fps=float("inf")), "fps"),
    (lambda plan: plan.update(colour="red"), "colour"),
    (lambda plan: plan.update(tasks={"a": ["x"], "b": ["x"]}), "'x' stands for two tasks"),
]


def test_a_plan_that_contradicts_itself_is_one_line(ws: Workspace, tmp_path: Path) -> None:
    path, plan = make_plan(ws, tmp_path, source("one", [0], [FRONT]))
    for change, message in CONTRADICTIONS:
        changed = deepcopy(plan)
        change(changed)
        with pytest.raises(RequestError) as caught:
            read_merge_plan(save(path, changed))
        assert message in str(caught.value) and "\n" not in str(caught.value)


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


NAMES = st.lists(
    st.sampled_from(
        ["x", "y", "gripper", "joint_0", "joint_1", "waist", "q17", "left_arm_0", "roll", "temp"]
    ),
    unique=True,
    max_size=7,
)


@given(NAMES, NAMES)
@settings(max_examples=100, deadline=None)
def test_nothing_is_guessed_in_silence(goals: list[str], own: list[str]) -> None:
    match = match_dimensions("state", tuple(goals), tuple(own), ("one", "two"))
    assert list(match.mapping) == own, "each dimension of the source has a line"
    goal_names = [goal for goal in match.mapping.values() if goal not in (ASK, DROP)]
    assert len(set(goal_names)) == len(goal_names) and set(goal_names) <= set(goals)
    notes = " ".join(match.notes)
    for name, goal in match.mapping.items():
        told = "are dropped" if goal == DROP else name
        assert goal in (name, ASK) or told in notes, "what is not plain has to be confirmed"
    if ASK not in match.mapping.values():
        assert set(goal_names) | set(match.padded) == set(goals), "nothing of the merged dataset is missing"


def test_two_kinds_of_episodes_of_one_dataset_do_not_get_the_same_names(
    ws: Workspace, tmp_path: Path
) -> None:
    """One of them may be in degrees: a conversion for the dataset could not distinguish them."""
    records = [
        *source("one", range(2), [FRONT]),
        *source("one", [2], [FRONT], names=("j1", "j2", "j3", "jaw")),
    ]
    path, plan = make_plan(ws, tmp_path, records)
    assert "2 kinds of episodes of one the same names" in confirmation_texts(plan)
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
    plan["sources"][0] |= {"cameras": {"front": "wrist", "wrist": "drop"}, "pad": ["camera front"]}
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
    ws.export("made", tmp_path / "out", format="parquet", plan=save(path, plan), quiet=True)
    rows = pq.read_table(tmp_path / "out" / "segments.parquet").to_pylist()
    assert {(row["text"].split()[2], row["camera"]) for row in rows} == {
        ("cam_high", "front"),
        ("cam_hand", "wrist"),
        ("see?", ""),
    }


def test_tasks_that_one_source_alone_has_are_asked_for(ws: Workspace, tmp_path: Path) -> None:
    """Another wording that no table knows is no other task in silence."""
    for dataset, text, numbers in (
        ("one", "pick up the mug", range(4)),
        ("two", "grab the mug", range(4, 7)),
    ):
        texts = {"instruction": text, "instructions": (text,)}
        ws.stores.tables.episodes.add(source(dataset, numbers, [FRONT], **texts))
    ws.sets.create("made", sorted(ws.stores.tables.episodes.ids()), {})
    _, plan = write_plan(ws, tmp_path)
    assert "tasks of two are not in one, such as 'grab the mug'" in confirmation_texts(plan)


def plan_questions(seed: int, folder: Path) -> tuple[tuple[str, ...], list[str]]:
    """What was planted in two drawn sources, and the questions of the plan of their merge."""
    drawn = merged_sources(seed, folder)
    ws = open_workspace(folder / "ws", create=True)
    make_set(ws, [*drawn.first, *drawn.second])
    return drawn.planted, list(open_questions(propose_merge_plan(ws.stores, ws.sets["made"])))


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        *range(4),
        *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(4, 40)),
        70249,  # Two cameras that look alike are exchanged.
    ],
)
def test_what_is_planted_is_asked_for_and_halves_of_one_dataset_are_not(seed: int, tmp_path: Path) -> None:
    planted, questions = plan_questions(seed, tmp_path)
    assert bool(questions) == bool(planted), f"{planted}: {questions}"


def test_two_sizes_of_one_camera_of_one_source_are_asked_for(ws: Workspace) -> None:
    small = replace(FRONT, width=FRONT.width // 2, height=FRONT.height // 2)
    records = [
        *source("lab", range(3), [FRONT]),
        *source("lab", [3], [small]),
    ]
    mixed = make_set(ws, records)
    (question,) = open_questions(propose_merge_plan(ws.stores, mixed))
    assert f"{small.width}x{small.height} pixels in some episodes: fitted into" in question
    assert f"into {FRONT.width}x{FRONT.height}" in question
