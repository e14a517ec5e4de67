"""What files beside records say is read again where it has changed, of those episodes alone; people's word stays."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares.episode import Episode
from ares.input import open_input
from ares.media import fingerprint
from ares.workspace import Workspace
from ares_ingest.lerobot import metadata
from tests.ares.review.conftest import CAPTIONER, make_annotation
from tests.ingest.agibot.conftest import write_episode as write_agibot_episode, write_task
from tests.ingest.image_folders.conftest import write_images
from tests.ingest.lerobot.conftest import LeRobotFolders
from tests.ingest.test_labels import write_episodes, write_labels
from tests.ingest.video.test_source import write_metadata, write_video
from tests.ingesting import ingest_paths

# Writes a text into what says it of the second of two episodes.
Say = Callable[[str], object]


def _videos(folder: Path) -> None:
    for number in range(2):
        write_video(folder / f"run_{number}.mp4", shade=9 * number)


def say_in_table(folder: Path) -> Say:
    _videos(folder)
    return lambda text: (folder / "runs.csv").write_text(
        f"file,instruction\nrun_0.mp4,lift\nrun_1.mp4,{text}\n"
    )


def say_in_json_lines(folder: Path) -> Say:
    _videos(folder)
    first = json.dumps({"file_name": "run_0.mp4"})
    return lambda text: (folder / "metadata.jsonl").write_text(
        "\n".join((first, json.dumps({"file_name": "run_1.mp4", "task": text}))) if text else first
    )


def say_in_labels(folder: Path) -> Say:
    write_episodes(folder, 2)
    return lambda text: (folder / "labels.csv").write_text(
        f"episode,task,author\nep_000,lift,a\nep_001,{text},b\n"
    )


def say_beside_video(folder: Path) -> Say:
    _videos(folder)
    return lambda text: text and (folder / "run_1.json").write_text(json.dumps({"instruction": text}))


def say_beside_arrays(folder: Path) -> Say:
    write_episodes(folder, 2)
    return lambda text: text and (folder / "ep_001.json").write_text(json.dumps({"instruction": text}))


def say_beside_hdf5(folder: Path) -> Say:
    """ManiSkill, where a file has the episodes of one task."""
    folder.mkdir()
    for number in range(2):
        with h5py.File(folder / f"trajectory_{number}.h5", "w") as file:
            file["traj_0/actions"] = np.ones((5, 2), np.float32) * number
            file["traj_0/obs/agent/qpos"] = np.zeros((6, 2), np.float32)
            file["traj_0/success"] = np.ones(5, bool)
    entry = {"episode_id": 0, "elapsed_steps": 5}

    def say(text: str) -> None:
        for number, name in enumerate(("Lift-v1", text)):
            document = {"env_info": {"env_id": name}, "episodes": [entry]}
            if name == text or not text:
                (folder / f"trajectory_{number}.json").write_text(json.dumps(document))

    return say


def say_in_episode_list(folder: Path) -> Say:
    made = LeRobotFolders()
    made.make(folder, video=False)
    pairs = [{"task_index": number, "task": text} for number, text in enumerate(("do it", "pour", "open it"))]
    made.write(folder, "tasks.jsonl", *pairs)
    rows = [{"episode_index": number, "tasks": ["do it"], "length": 6} for number in range(2)]
    return lambda text: made.write(
        folder, "episodes.jsonl", rows[0], rows[1] | ({"success": text == "pour"} if text else {})
    )


def say_in_task_list(folder: Path) -> Say:
    made = LeRobotFolders()
    made.make(folder, video=False)
    made.rewrite(folder, 1, task_index=np.ones(6, np.int64))
    rows = [{"episode_index": n, "tasks": [text], "length": 6} for n, text in enumerate(("do it", "lfit"))]
    made.write(folder, "episodes.jsonl", *rows)
    pairs = [{"task_index": 0, "task": "do it"}, {"task_index": 1, "task": "lfit"}]
    return lambda text: made.write(
        folder, "tasks.jsonl", pairs[0], pairs[1] | ({"task": text} if text else {})
    )


def say_in_task_info(folder: Path) -> Say:
    for episode in (1, 2):
        write_agibot_episode(folder, 327, episode)
    path = write_task(folder, 327, [1, 2])
    rows = json.loads(path.read_text())
    return lambda text: path.write_text(
        json.dumps([rows[0], rows[1] | ({"task_name": text} if text else {})])
    )


def say_beside_images(folder: Path) -> Say:
    for number in range(2):
        write_images(folder / f"run_{number}", [f"{step}.png" for step in range(3)])
        (folder / f"run_{number}" / "instruction.txt").write_text("lift\n")
    return lambda text: text and (folder / "run_1" / "instruction.txt").write_text(f"{text}\n")


def said_of(episode: Episode) -> tuple[object, ...]:
    return episode.instructions, episode.success, dict(episode.metadata)


def _read_again(ws: Workspace, folder: Path) -> int:
    return ingest_paths(ws.stores, [str(folder)], quiet=True).counts.kept


@pytest.mark.parametrize(
    "write",
    [
        *(
            say_in_table,
            say_in_json_lines,
            say_in_labels,
            say_beside_video,
            say_beside_arrays,
            say_beside_hdf5,
        ),
        *(say_in_episode_list, say_in_task_list, say_in_task_info, say_beside_images),
    ],
)
def test_what_is_said_later_or_otherwise_is_read_of_its_episode_alone(
    write: Callable[[Path], Say], ws: Workspace, tmp_path: Path
) -> None:
    folder = tmp_path / "lab"
    say = write(folder)
    say("")
    assert _read_again(ws, folder) == 2
    ids = ws.stores.tables.episodes.ids()
    first = {episode.key: episode for episode in ws.episodes}
    for text in ("pour", "stir"):
        say(text)
        assert _read_again(ws, folder) == 1, text
        assert _read_again(ws, folder) == 0, "an unchanged night reads nothing"
        now = {episode.key: episode for episode in ws.episodes}
        (changed,) = (now[key] for key in now if said_of(now[key]) != said_of(first[key]))
        assert text in json.dumps(said_of(changed)) or changed.success is (text == "pour")
    assert ws.stores.tables.episodes.ids() == ids


@pytest.mark.parametrize(
    "write", [say_beside_video, say_beside_arrays, say_beside_hdf5, say_beside_images, say_in_task_list]
)
def test_an_unchanged_night_reads_no_file_beside_a_record_and_verify_sees_its_content(
    write: Callable[[Path], Say], ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opened = tmp_path / "lab", list[str]()
    write(folder)("pour")
    _read_again(ws, folder)

    def open_counted(path: str, **options: Any) -> BinaryIO:
        opened.append(str(path))
        return open_input(path, **options)

    for module in ("ares.input.files", "ares.media.fingerprint"):
        monkeypatch.setattr(f"{module}.open_input", open_counted)
    metadata._read_task_list.cache_clear()
    fingerprint._cache.clear()
    assert _read_again(ws, folder) == 0
    texts = [path for path in folder.rglob("*.*") if b"pour" in path.read_bytes()]
    # The tasks of LeRobot once by the check of its metadata, and once for all episodes.
    assert sum(opened.count(str(path)) for path in texts) == (2 if write is say_in_task_list else 0)
    for path in texts:
        stat = path.stat()
        path.write_bytes(path.read_bytes().replace(b"pour", b"stir"))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    for cache in (metadata._read_task_list.cache_clear, fingerprint._cache.clear):
        cache()  # as in the process of another night
    assert ingest_paths(ws.stores, [str(folder)], quiet=True, verify=True).counts.kept == 1


def test_a_table_that_comes_later_changes_nothing_that_people_or_models_said(
    ws: Workspace, tmp_path: Path
) -> None:
    folder = tmp_path / "lab"
    _videos(folder)
    _read_again(ws, folder)
    by_key = {episode.key: episode.episode_id for episode in ws.episodes}
    first, second = by_key["run_0.mp4"], by_key["run_1.mp4"]
    ws.correct(first, outcome="failure", person="Ada")
    ws.correct(first, instruction="push the lid", person="Ada")
    ws.tag("mine", [second])
    ws.stores.annotations.add_producer(CAPTIONER)
    ws.stores.annotations.append([make_annotation(CAPTIONER, second, second, {"caption": "a lid"})])
    table = folder / "runs.csv"
    table.write_text("file,instruction,success\nrun_0.mp4,lift,yes\nrun_1.mp4,pour,no\n")
    assert _read_again(ws, folder) == 2
    ws.sync()
    assert said_of(ws.episodes[first])[:2] == (("push the lid",), False)
    assert ws.episodes[first].recorded == {"instruction": "lift", "success": True}
    assert said_of(ws.episodes[second])[:2] == (("pour",), False)
    assert list(ws.episodes.where("caption = 'a lid' AND array_has(tags, 'mine')").ids()) == [second]
    table.write_text("file,instruction,success\nrun_0.mp4,lift,yes\nrun_1.mp4,,\n")
    assert _read_again(ws, folder) == 1
    assert said_of(ws.episodes[second])[:2] == ((), None), "a cell that is empty now"
    table.unlink()
    assert [_read_again(ws, folder) for _ in range(2)] == [1, 0], "the episode that had labels, once"
    assert said_of(ws.episodes[first])[:2] == (("push the lid",), False), "the word of people stays"
    assert ws.episodes[first].recorded == {"instruction": "", "success": None}


def test_a_row_that_says_otherwise_where_its_video_lies_is_read_again(ws: Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    _videos(folder)
    row: dict[str, object] = {"video": "run_0.mp4", "episode_id": "a", "fps": 10, "start": 0.0, "stop": 0.8}
    write_metadata(folder, row, {"video": "run_1.mp4", "episode_id": "b"})
    _read_again(ws, folder)
    for change in ({"fps": 5}, {"start": 0.2}, {"stop": 0.6}, {"video": "run_1.mp4"}):
        row |= change
        write_metadata(folder, row, {"video": "run_1.mp4", "episode_id": "b"})
        is_without_row = "video" in change  # run_0.mp4 is an episode of its own then
        assert [_read_again(ws, folder) for _ in range(2)] == [1 + is_without_row, 0], change
    (episode,) = (episode for episode in ws.episodes if episode.key == "a")
    assert Path(episode.cameras[0].media.uri).name == "run_1.mp4"
    assert episode.duration_seconds == pytest.approx(0.4)


def test_one_file_of_a_folder_says_nothing_of_its_labels(ws: Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    say_in_table(folder)("pour")
    write_episodes(folder / "arrays", 2)
    (folder / "arrays" / "labels.csv").write_text("episode,task\nep_001,pour\n")
    _read_again(ws, folder)
    before = {episode.episode_id: said_of(episode) for episode in ws.episodes}
    for path in (folder / "run_1.mp4", folder / "arrays" / "ep_001.npz", folder / "arrays"):
        ingest_paths(ws.stores, [str(path)], quiet=True)
    assert {episode.episode_id: said_of(episode) for episode in ws.episodes} == before


@pytest.mark.parametrize("left", ["episode,task,author\n", "", None])
def test_labels_that_are_gone_are_gone_from_their_episodes(
    left: str | None, ws: Workspace, tmp_path: Path
) -> None:
    folder, table = tmp_path / "lab", tmp_path / "lab" / "labels.csv"
    write_episodes(folder, 2)
    table.write_text("episode,task,author\nep_001,pour,b\n")
    _read_again(ws, folder)
    table.touch()
    assert _read_again(ws, folder) == 0, "touched, with the same content"
    table.unlink() if left is None else table.write_text(left)
    nights = [ingest_paths(ws.stores, [str(folder)], quiet=True).to_report() for _ in range(3)]
    assert [(night.kept, night.gone) for night in nights] == [(1, 1), (0, 0), (0, 0)]
    assert {said_of(episode)[:2] for episode in ws.episodes} == {((), None)}
    assert not any("labels" in episode.metadata for episode in ws.episodes)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("labels.csv", b"\xff\xfe\x00episode,task\nep_001,"),
        ("labels.csv", b"\x9f\x80,\xfe\n\x81,\x82\n"),
        ("labels.csv", bytes(80)),
        ("labels.jsonl", b'{"episode": "ep_000", "task": "lift"}\n{"episode": "ep_001", "ta'),
        ("labels.jsonl", b'{"episode": "ep_0'),
        ("labels.parquet", b"PAR1\x00"),
        ("labels.json", b'[{"episode": "ep_0'),
        ("labels.yaml", b'[{"episode": "ep_0'),
    ],
)
def test_labels_that_cannot_be_read_tonight_take_nothing_away(
    name: str, damage: bytes, ws: Workspace, tmp_path: Path
) -> None:
    folder = tmp_path / "lab"
    write_episodes(folder, 2)
    rows = [{"episode": "ep_000", "task": "lift"}, {"episode": "ep_001", "task": "pour"}]
    table = folder / (name if name not in ("labels.json", "labels.yaml") else "labels.csv")
    write_labels(table, rows)
    whole = table.read_bytes()
    _read_again(ws, folder)
    table.unlink()
    (folder / name).write_bytes(damage)
    report = ingest_paths(ws.stores, [str(folder)], quiet=True)
    assert report.counts.kept == 0
    assert [part.reason for part in report.counts.fields()["warnings"] if name in part.reason]
    assert {episode.instruction for episode in ws.episodes} == {"lift", "pour"}
    (folder / name).unlink()
    table.write_bytes(whole)
    assert _read_again(ws, folder) == 0


def test_tasks_that_cannot_be_read_tonight_take_nothing_away(ws: Workspace, tmp_path: Path) -> None:
    say_in_task_list(tmp_path / "lab")("pour")
    _read_again(ws, tmp_path / "lab")
    tasks = tmp_path / "lab" / "meta" / "tasks.jsonl"
    whole = tasks.read_text()
    for text in (whole[:-9], whole):
        tasks.write_text(text)
        assert _read_again(ws, tmp_path / "lab") == 0


def test_labels_that_were_damaged_at_first_are_read_when_they_are_whole(
    ws: Workspace, tmp_path: Path
) -> None:
    folder = tmp_path / "lab"
    write_episodes(folder, 2)
    (folder / "labels.jsonl").write_text('{"episode": "ep_000", "task": "lift"}\n{"episode"')
    _read_again(ws, folder)
    (folder / "labels.jsonl").write_text('{"episode": "ep_001", "task": "pour"}\n')
    nights = [ingest_paths(ws.stores, [str(folder)], quiet=True).to_report() for _ in range(2)]
    assert [(night.kept, night.gone) for night in nights] == [(2, 1), (0, 0)]
    assert [episode.instruction for episode in ws.episodes] == ["", "pour"]


def _write_tables(folder: Path) -> None:
    for number in range(13):
        (folder / f"log_{number}.csv").write_text("a,b\n1,2\n")


@pytest.mark.parametrize(
    ("damage", "warning"),
    [
        (_write_tables, "14 .csv files are not searched for labels: more than 12 of the kind in a folder"),
        (lambda folder: (folder / "notes.json").write_bytes(b'{"a'), "notes.json beside"),
        (lambda folder: (folder / "conf.yaml").write_bytes(b"a: [1, {"), "conf.yaml beside"),
        (lambda folder: (folder / "sites.csv").write_bytes(b"gr\xf6sse,b\n1,2\n"), "sites.csv beside"),
        (lambda folder: (folder / "more.csv").write_text("episode,task\nep_002,a,b,c\n"), "more.csv"),
        (lambda folder: (folder / "log.jsonl").write_text("[1]\n[2]\n"), ""),
    ],
)
def test_a_file_that_is_not_read_stops_no_change_and_takes_nothing_away(
    damage: Callable[[Path], object], warning: str, ws: Workspace, tmp_path: Path
) -> None:
    folder, says = tmp_path / "lab", '{"instruction": "%s"}'
    write_episodes(folder, 3)
    (folder / "ep_002.json").write_text(says % "open")
    rows = [{"episode": f"ep_00{number}", "task": text} for number, text in enumerate(("lift", "pour"))]
    write_labels(folder / "labels.csv", rows)
    write_labels(folder / "labels.jsonl", [{"episode": "ep_002", "author": "Ada"}])
    _read_again(ws, folder)
    damage(folder)
    assert _read_again(ws, folder) == 0
    (folder / "labels.jsonl").write_text('{"episode": "ep_002", "author": "Bob"}')
    write_labels(folder / "labels.csv", rows[:1])
    (folder / "ep_002.json").write_text(says % "shut")
    report = ingest_paths(ws.stores, [str(folder)], quiet=True)
    warned = [part.reason for part in report.counts.fields()["warnings"]]
    assert not warning or any(reason.startswith(warning) for reason in warned), warned
    assert (report.counts.kept, report.to_report().gone) == ((1, 0) if warning else (2, 1))
    assert [episode.instruction for episode in ws.episodes] == ["lift", "pour" if warning else "", "shut"]
    assert "Bob" in json.dumps([dict(episode.metadata) for episode in ws.episodes])
    assert _read_again(ws, folder) == 0
