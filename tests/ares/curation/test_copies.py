"""Copies are found whatever was changed, equal motions before other pictures are linked, and the best copy is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.curation.copies import choose_kept, find_copies
from ares.episode import Camera, Record
from ares.media import VideoEncoding, encode_mp4
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.ares.curation.test_composition import draw_course, draw_film, make_record
from tests.ares.media.written_videos import span_ref


def add_film(record: Record, path: Path, film: NDArray[np.uint8], quality: int = 15) -> Record:
    """The record with one camera of ten frames a second, in a separate file."""
    encode_mp4(film, path, 10.0, VideoEncoding("libx264", {"crf": str(quality), "preset": "veryfast"}))
    media = span_ref(path, len(film), 10.0)
    height, width = film.shape[1:3]
    camera = Camera(name="front", role="front", width=width, height=height, codec="h264", media=media)
    return replace(record, episode=replace(record.episode, cameras=(camera,)))


@pytest.fixture(scope="module")
def filmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """One motion before one scene, three copies of it, the same motion before another scene, and another motion."""
    folder = tmp_path_factory.mktemp("filmed")
    motion, film = draw_course(1, 50), draw_film(1)
    noisy = motion + 0.01 * np.random.default_rng(0).normal(size=motion.shape)
    with open_workspace(str(folder / "w"), Settings()) as workspace:
        records = [
            add_film(make_record("poor", noisy), folder / "poor.mp4", film, quality=38),
            add_film(make_record("whole", motion), folder / "whole.mp4", film),
            add_film(make_record("same", motion, dataset="b"), folder / "same.mp4", film),
            add_film(make_record("turned", noisy), folder / "turned.mp4", film[:, :, ::-1], quality=8),
            add_film(make_record("replayed", motion), folder / "replayed.mp4", draw_film(1, scene=3)),
            add_film(make_record("other", draw_course(2, 53)), folder / "other.mp4", draw_film(2)),
        ]
        workspace.stores.tables.episodes.add(records)
        yield workspace


def key_of(workspace: Workspace) -> dict[str, str]:
    rows = workspace.episodes.to_arrow(["episode_id", "key"]).to_pylist()
    return {row["episode_id"]: row["key"] for row in rows}


def test_equal_motion_before_other_pictures_is_linked_and_no_copy(filmed: Workspace) -> None:
    keys = key_of(filmed)
    copies = find_copies(filmed.stores, list(keys))
    assert [{keys[id] for id in group} for group in copies.groups()] == [{"poor", "whole", "same", "turned"}]
    ways = {frozenset((keys[pair.first], keys[pair.second])): pair for pair in copies.linked}
    assert ways[frozenset({"whole", "same"})].way == "content"
    assert any(pair.is_mirrored for names, pair in ways.items() if "turned" in names)
    assert not ways[frozenset({"whole", "replayed"})].is_copy
    assert not any("other" in pair for pair in ways)
    assert copies.compared == {"signals": 6, "pixels": 5}, "the other motion is not decoded"


def test_the_best_copy_is_kept(filmed: Workspace) -> None:
    kept, decided = filmed.sets.compose("best", dedupe=True)
    keys = key_of(filmed)
    assert {keys[id] for id in kept.ids()} == {"whole", "replayed", "other"}
    assert decided.counts() == {"kept": 3, "near duplicate": 3}


def test_a_larger_copy_is_kept_of_two(ws: Workspace, tmp_path: Path) -> None:
    film, motion = draw_film(4), draw_course(4, 50)
    large = film.repeat(2, axis=1).repeat(2, axis=2)
    records = [
        add_film(make_record("first", motion), tmp_path / "first.mp4", film, quality=5),
        add_film(make_record("large", motion), tmp_path / "large.mp4", large, quality=30),
    ]
    ws.stores.tables.episodes.add(records)
    keys = key_of(ws)
    (left_out,) = choose_kept(ws.stores, find_copies(ws.stores, list(keys)))
    assert keys[left_out] == "first"


@pytest.mark.parametrize("jump_seconds", [1e13, -5.0, -50.0])
def test_copies_with_a_clock_that_jumps_are_compared_in_bounded_memory(
    ws: Workspace, jump_seconds: float
) -> None:
    """At ten rows a second the first one would have 10^14 rows."""
    motion, rng = draw_course(5, 60), np.random.default_rng(0)
    records = [
        make_record("good", motion),
        make_record("jumps", motion + 0.001 * rng.normal(size=motion.shape)),
        make_record("other", draw_course(6, 60)),
        make_record("other copy", draw_course(6, 60) + 0.001 * rng.normal(size=motion.shape)),
    ]
    stamps = records[1].trajectory.timestamps.copy()
    stamps[30:] += jump_seconds
    records[1] = replace(records[1], trajectory=replace(records[1].trajectory, timestamps=stamps))
    ws.stores.tables.episodes.add(records)
    keys = key_of(ws)
    copies = find_copies(ws.stores, list(keys))
    assert {frozenset((keys[pair.first], keys[pair.second])) for pair in copies.pairs} == {
        frozenset({"good", "jumps"}),
        frozenset({"other", "other copy"}),
    }


def test_no_matched_control_is_linked_to_a_member(filmed: Workspace) -> None:
    filmed.sets.create("one", where="key = 'whole'")
    frozen, drawn = filmed.sets.controls("one")
    keys = key_of(filmed)
    assert [keys[id] for id in frozen["matched"].ids()] == ["other"]
    assert drawn.copies >= 1


def test_parts_share_no_linked_episodes(filmed: Workspace) -> None:
    filmed.sets.create("all", where="true")
    parts, _ = filmed.sets.split("all", {"train": 0.8, "val": 0.2})
    keys = key_of(filmed)
    assert [keys[id] for id in parts["val"].ids()] == ["other"]
    assert "other signals or speeds, crops over 8 % and large overlays are not found" in str(
        parts["val"].recipe["known"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.01])
def test_all_of_many_copies_are_one_group(ws: Workspace, noise: float) -> None:
    """A window has more near ones than are looked at; the copies still hang together, and no other hangs on them."""
    rng = np.random.default_rng(11)
    motion = draw_course(1, 60)
    records = [make_record(f"copy {n}", motion + noise * rng.normal(size=motion.shape)) for n in range(120)]
    records += [make_record(f"other {n}", draw_course(100 + n, 60)) for n in range(60)]
    ws.stores.tables.episodes.add(records)
    keys = key_of(ws)
    (group,) = find_copies(ws.stores, list(keys)).groups()
    assert {keys[id] for id in group} == {f"copy {n}" for n in range(120)}


def test_two_cameras_of_one_episode_are_no_copies(ws: Workspace, tmp_path: Path) -> None:
    records = []
    for number in (5, 6):
        film = draw_film(number)
        record = make_record(f"stereo {number}", draw_course(number))
        record = replace(record, trajectory=replace(record.trajectory, state=None))
        left = add_film(record, tmp_path / f"{number}.mp4", film)
        right = add_film(left, tmp_path / f"{number} right.mp4", np.roll(film, 1, axis=2))
        cameras = (*left.episode.cameras, replace(right.episode.cameras[0], name="right"))
        records.append(replace(left, episode=replace(left.episode, cameras=cameras)))
    ws.stores.tables.episodes.add(records)
    assert not find_copies(ws.stores, list(key_of(ws))).linked


def test_one_motion_that_was_commanded_twice_is_no_copy(ws: Workspace) -> None:
    """A smooth motion from another place, with the tremor of the commands, is a second recording."""
    rng, motion, records = np.random.default_rng(4), draw_course(7, 60), []
    tremor = rng.normal(0, 0.3 * motion.std(), (2, *motion.shape))
    for number, commands in enumerate((tremor[0], tremor[1], tremor[0] + 1e-3)):
        record = make_record(str(number), motion + 0.01 * number)
        assert record.trajectory.state is not None
        action = replace(record.trajectory.state, values=(motion + commands).astype(np.float32))
        records.append(replace(record, trajectory=replace(record.trajectory, action=action)))
    ws.stores.tables.episodes.add(records)
    keys = key_of(ws)
    copies = find_copies(ws.stores, list(keys))
    assert [sorted(keys[id] for id in (pair.first, pair.second)) for pair in copies.pairs] == [["0", "2"]]
    assert len(copies.linked) > 1


def test_episodes_whose_videos_cannot_be_read_are_no_copies_of_one_motion(
    filmed: Workspace, ws: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    motion = draw_course(9, 50)
    records = [
        add_film(make_record(f"scene {n}", motion), tmp_path / f"{n}.mp4", draw_film(9, scene=n))
        for n in (1, 2)
    ]
    ws.stores.tables.episodes.add(records)
    (tmp_path / "2.mp4").unlink()
    copies = find_copies(ws.stores, list(key_of(ws)))
    assert [pair.is_copy for pair in copies.linked] == [False]
    assert "the videos of 1 episode cannot be read" in capsys.readouterr().err


@pytest.mark.slow
def test_copies_are_found_among_many_recordings_of_one_motion(ws: Workspace, tmp_path: Path) -> None:
    """One script was replayed before two scenes, and the recordings of both were encoded twice."""
    motion = draw_course(13, 50)
    records = []
    for number in range(24):
        name, film = f"{number % 2} {number}", draw_film(13, scene=number % 2 + 1)
        noisy = motion + 0.01 * np.random.default_rng(number // 2 % 2).normal(size=motion.shape)
        records.append(add_film(make_record(name, noisy), tmp_path / f"{name}.mp4", film, quality=5 + number))
    ws.stores.tables.episodes.add(records)
    keys = key_of(ws)
    copies = find_copies(ws.stores, list(keys))
    assert sorted(sorted(keys[id][0] for id in group) for group in copies.groups()) == [
        ["0"] * 12,
        ["1"] * 12,
    ]
