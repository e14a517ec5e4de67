"""What a night leaves half read, the next one completes under the same id, with what people said and no other loss."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import av
import pytest

from ares.errors import RequestError
from ares.settings import Settings
from ares.store import outdate_annotations
from ares.workspace import Workspace, open_workspace
from ares_ingest.base import SourceOptions
from ares_ingest.pipeline import CHECKER
from tests.ares.review.conftest import CAPTIONER, make_annotation
from tests.ingesting import ingest_paths
from tests.workspaces import CommandResult

Run = Callable[..., CommandResult]


@pytest.fixture
def videos(demo_samples: Path, tmp_path: Path) -> Path:
    """A folder of three episodes of two cameras: A_front.mp4, A_wrist.mp4 and so on."""
    files = sorted((demo_samples / "video").rglob("*.mp4"))[:6]
    folder = tmp_path / "lab"
    folder.mkdir()
    names = [f"{episode}_{camera}.mp4" for episode in "ABC" for camera in ("front", "wrist")]
    for file, name in zip(files, names, strict=True):
        shutil.copy(file, folder / name)
    return folder


def _cameras(ws: Workspace) -> dict[str, list[str]]:
    return {episode.key: [camera.name for camera in episode.cameras] for episode in ws.episodes}


def _complete(ws: Workspace) -> dict[str, bool]:
    rows = ws.stores.tables.episodes.read_columns(["key", "complete"]).to_pylist()
    return {row["key"]: row["complete"] for row in rows}


def test_a_camera_that_comes_a_night_later_completes_its_episode(
    ws: Workspace, videos: Path, tmp_path: Path, run_ares: Run
) -> None:
    late = videos / "B_wrist.mp4"
    late.rename(tmp_path / "late.mp4")
    first = ingest_paths(ws.stores, [str(videos)], quiet=True)
    assert (first.counts.kept, first.incomplete) == (3, 1)
    assert _complete(ws) == {"A": True, "B": False, "C": True}
    (episode_id,) = ws.stores.tables.episodes.ids("NOT complete")
    ws.stores.annotations.add_producer(CAPTIONER)
    ws.stores.annotations.append([make_annotation(CAPTIONER, episode_id, episode_id, {"caption": "a lid"})])
    ws.correct(episode_id, outcome="failure", person="Ada")
    assert len(ws.episodes.where("caption = 'a lid'")) == 1
    assert run_ares("ingest", videos, "-w", ws.path, "-q").status == 1, "it is still not there"
    assert "camera wrist has no pictures" in run_ares("failures", "list", "-w", ws.path).out
    (tmp_path / "late.mp4").rename(late)
    done = run_ares("ingest", videos, "-w", ws.path, "--json")
    assert (done.status, done.json["kept"], done.json["already"], done.json["incomplete"]) == (0, 1, 2, 0)
    ws.sync()
    assert _complete(ws) == dict.fromkeys("ABC", True)
    assert _cameras(ws)["B"] == ["front", "wrist"] and len(ws.episodes) == 3
    episode = ws.episodes[episode_id]
    assert episode.success is False and not len(ws.episodes.where("caption = 'a lid'")), "people's word stays"
    assert run_ares("ingest", videos, "-w", ws.path, "--json").json["kept"] == 0, "nothing is left to do"
    assert run_ares("doctor", "-w", ws.path).status == 0


def test_a_video_that_was_half_there_is_read_again_when_it_has_grown(
    ws: Workspace, videos: Path, run_ares: Run
) -> None:
    path = videos / "A_front.mp4"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    first = ingest_paths(ws.stores, [str(videos)], quiet=True)
    assert first.counts.kept + first.counts.failed == 3
    path.write_bytes(whole)
    again = run_ares("ingest", videos, "-w", ws.path, "--json")
    assert again.status == 0 and again.json["incomplete"] == 0
    ws.sync()
    assert len(ws.episodes) == 3
    assert {len(cameras) for cameras in _cameras(ws).values()} == {2}


@pytest.mark.parametrize("format", ["video", "lerobot-v2.1"])
def test_a_cut_video_is_incomplete_wherever_it_is_promised(
    ws: Workspace, videos: Path, tmp_path: Path, format: str
) -> None:
    """Its head says how long it is, and half of its frames are there."""
    folder = videos
    if format != "video":
        ingest_paths(ws.stores, [str(videos)], quiet=True)
        folder = tmp_path / "out"
        ws.export(
            ws.sets.create("all", ws.stores.tables.episodes.ids(), {}), folder, format=format, quiet=True
        )
    path, matroska = sorted(folder.rglob("*.mp4"))[0], tmp_path / "cut.mkv"
    whole = path.read_bytes()
    with av.open(str(path)) as source, av.open(str(matroska), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            packet.stream = stream
            target.mux([packet] if packet.dts is not None else [])
    path.write_bytes(matroska.read_bytes()[: matroska.stat().st_size // 2])
    with open_workspace(str(tmp_path / "again"), Settings(), create=True) as again:
        assert ingest_paths(again.stores, [str(folder)], quiet=True).incomplete == 1
        path.write_bytes(whole)
        done = ingest_paths(again.stores, [str(folder)], quiet=True)
        assert (done.counts.kept, done.incomplete) == (1, 0)


def test_a_changed_file_is_read_again_and_a_touched_one_is_not(ws: Workspace, videos: Path) -> None:
    ingest_paths(ws.stores, [str(videos)], quiet=True)
    os.utime(videos / "A_front.mp4", (1, 1))
    assert ingest_paths(ws.stores, [str(videos)], quiet=True).counts.kept == 0
    shutil.copy(videos / "C_front.mp4", videos / "A_front.mp4")
    assert ingest_paths(ws.stores, [str(videos)], quiet=True).counts.kept == 1
    assert len(ws.episodes) == 3


def test_what_was_accepted_is_known_and_no_reason_for_an_alarm(
    ws: Workspace, videos: Path, run_ares: Run
) -> None:
    (videos / "B_wrist.mp4").unlink()
    assert ingest_paths(ws.stores, [str(videos)], quiet=True).incomplete == 1
    assert run_ares("failures", "accept", "--annotator", "incomplete", "--yes", "-w", ws.path).status == 0
    done = run_ares("ingest", videos, "-w", ws.path, "--json")
    assert (done.status, done.json["kept"], done.json["already"]) == (0, 0, 3)


def test_an_export_leaves_out_what_is_incomplete_until_it_is_accepted(
    ws: Workspace, videos: Path, tmp_path: Path, run_ares: Run
) -> None:
    (videos / "B_wrist.mp4").unlink()
    ingest_paths(ws.stores, [str(videos)], quiet=True)
    frozen = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
    for format in ("lerobot", "parquet", "jsonl", "rlds"):
        report = ws.export(frozen, tmp_path / format, format=format, quiet=True)
        assert (report.episodes, report.failed) == (2, 0)
        assert any("1 incomplete episode" in line for line in report.left_out), (format, report.left_out)
    lone = ws.sets.create("lone", ws.stores.tables.episodes.ids("NOT complete"), {})
    with pytest.raises(RequestError, match=f"`ares failures accept --annotator incomplete -w {ws.path}`"):
        ws.export(lone, tmp_path / "lone", format="parquet", quiet=True)
    accept = ("failures", "accept", "--annotator", "incomplete", "--yes", "-w", ws.path)
    assert run_ares(*accept).status == 0
    assert ws.export(frozen, tmp_path / "all", format="parquet", quiet=True).episodes == 3


def test_young_files_are_left_for_the_next_run(ws: Workspace, videos: Path) -> None:
    old = 1_700_000_000
    for path in videos.iterdir():
        os.utime(path, (old, old))
    os.utime(videos / "C_wrist.mp4")
    report = ws.ingest(videos, settle_seconds=3600)
    assert (report.kept, report.failed) == (2, 0)
    assert [warning.reason for warning in report.warnings if "just now" in warning.reason]
    os.utime(videos / "C_wrist.mp4", (old, old))
    assert ws.ingest(videos, settle_seconds=3600).kept == 1


def test_a_dataset_that_is_gone_is_an_alarm(
    ws: Workspace, videos: Path, demo_samples: Path, run_ares: Run
) -> None:
    shutil.copytree(demo_samples / "rlds", videos / "rlds")
    assert run_ares("ingest", videos, "-w", ws.path).status == 0
    shutil.rmtree(videos / "rlds")
    done = run_ares("ingest", videos, "-w", ws.path, "--json")
    assert (done.status, done.json["gone"], done.json["already"]) == (1, 12, 3)
    rows = run_ares("status", "--coverage", "--json", "-w", ws.path).json["datasets"]
    assert {row["dataset"]: (row["listed"], row["whole"]) for row in rows} == {
        "lab": (3, True),
        "metaworld_sawyer": (0, False),
    }
    assert run_ares("status", "--coverage", "-w", ws.path).status == 1


def test_an_export_is_not_written_where_too_little_is_left(
    ws: Workspace, videos: Path, tmp_path: Path, run_ares: Run
) -> None:
    ingest_paths(ws.stores, [str(videos)], quiet=True)
    ws.sets.create("night", ws.stores.tables.episodes.ids(), {})
    export = ("export", "night", "-w", ws.path, "--min-kept", "0.9", "--format")
    assert run_ares(*export, "lerobot", tmp_path / "1").status == 0
    (videos / "A_front.mp4").unlink()
    refused = run_ares(*export, "lerobot", tmp_path / "night" / "2")
    assert refused.status == 2 and not (tmp_path / "night").exists()
    assert "2 episodes of the set can be exported, 3 must be" in refused.err
    ws.sets.create("night", sorted(ws.stores.tables.episodes.ids())[:2], {})
    refused = run_ares(*export, "lerobot", tmp_path / "3")
    assert refused.status == 2 and "the last export of night had 3" in refused.err


def _new_bytes(folder: Path, before: Path) -> int:
    known = {path.stat().st_ino for path in before.rglob("*")}
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum(stat.st_size for stat in files if stat.st_ino not in known)


@pytest.mark.parametrize("format", ["lerobot", "lerobot-v2.1", "rlds", "parquet"])
def test_an_unchanged_night_writes_almost_nothing_and_says_so(
    ws: Workspace, videos: Path, tmp_path: Path, run_ares: Run, format: str
) -> None:
    def export(name: str) -> CommandResult:
        run_ares("ingest", videos, "-w", ws.path, "-q")
        assert run_ares("set", "create", "night", "-w", ws.path, "-q").status == 0
        link = ("--link-dest", tmp_path / "1") if name != "1" else ()
        return run_ares("export", "night", tmp_path / name, "--format", format, "-w", ws.path, *link)

    assert "unchanged:" not in export("1").out
    second = export("2")
    assert f"unchanged: the files are those of {tmp_path / '1'}" in second.out
    size = sum(path.stat().st_size for path in (tmp_path / "2").rglob("*") if path.is_file())
    texts = sum(path.stat().st_size for path in (tmp_path / "2").rglob("*.json*"))
    assert _new_bytes(tmp_path / "2", tmp_path / "1") <= texts + 0.01 * size + 20_000
    names = [
        sorted(path.relative_to(tmp_path / n).as_posix() for path in (tmp_path / n).rglob("*")) for n in "12"
    ]
    assert names[0] == names[1]
    before = [path.stat().st_mtime_ns for path in sorted((tmp_path / "2").rglob("*"))]
    same = export("2")
    assert same.status == 0 and "already there: nothing was written" in same.out
    assert [path.stat().st_mtime_ns for path in sorted((tmp_path / "2").rglob("*"))] == before
    (videos / "C_wrist.mp4").unlink()
    (videos / "C_front.mp4").unlink()
    ws.sync()
    gone = ws.episodes.where("key = 'C'").ids()
    run_ares("remove", *gone, "-w", ws.path, "--yes")
    third = export("3")
    assert third.status == 0 and "unchanged:" not in third.out
    other = export("2")
    assert other.status == 2 and "the export folder is not empty" in other.err
    refused = run_ares(
        "export", "night", tmp_path / "4", "--format", format, "-w", ws.path, "--link-dest", videos
    )
    assert refused.status == 2 and "has no manifest.json" in refused.err


def test_coverage_says_what_is_declared_and_what_is_stored_whole(
    ws: Workspace, videos: Path, run_ares: Run
) -> None:
    (videos / "B_wrist.mp4").unlink()
    (videos / "C_wrist.mp4").write_bytes(b"not a video")
    assert run_ares("ingest", videos, "-w", ws.path).status == 1
    shown = run_ares("status", "--coverage", "--json", "-w", ws.path)
    (row,) = shown.json["datasets"]
    assert (row["declared"], row["listed"], row["kept"], row["incomplete"], row["failed"]) == (3, 3, 2, 1, 1)
    assert shown.status == 1


@pytest.mark.parametrize("purge", [(), ("--purge",)])
def test_what_people_have_removed_is_missing_from_no_night(
    ws: Workspace, videos: Path, run_ares: Run, purge: tuple[str, ...]
) -> None:
    assert run_ares("ingest", videos, "-w", ws.path).status == 0
    ids = sorted(ws.stores.tables.episodes.ids())
    assert run_ares("remove", ids[0], "--yes", *purge, "-w", ws.path).status == 0
    assert run_ares("ingest", videos, "-w", ws.path).status == 0
    shown = run_ares("status", "--coverage", "--json", "-w", ws.path)
    (row,) = shown.json["datasets"]
    assert (row["listed"], row["kept"], row["removed"], shown.status) == (3, 2, 1, 0)


def test_a_young_file_that_is_cut_waits_and_is_no_failure(ws: Workspace, videos: Path, run_ares: Run) -> None:
    old = 1_700_000_000
    (videos / "C_wrist.mp4").write_bytes((videos / "C_wrist.mp4").read_bytes()[:5000])
    for path in videos.iterdir():
        os.utime(path, (old, old))
    os.utime(videos / "C_wrist.mp4")
    done = run_ares("ingest", videos, "-w", ws.path, "--settle", "3600", "--json")
    assert (done.status, done.json["kept"], done.json["failed"]) == (0, 2, 0)
    for path in videos.iterdir():
        os.utime(path)
    assert run_ares("ingest", videos, "-w", ws.path, "--settle", "3600").status == 0


def test_what_stays_incomplete_is_read_and_writes_nothing(ws: Workspace, videos: Path) -> None:
    """Else a set with a camera that never comes would never be unchanged."""
    (videos / "B_wrist.mp4").unlink()
    ingest_paths(ws.stores, [str(videos)], quiet=True)
    ws.sync()
    before = (ws.stores.annotations.last_sequence(), ws.stores.tables.episodes.version())
    again = ingest_paths(ws.stores, [str(videos)], quiet=True)
    assert (again.counts.kept, again.counts.already, again.incomplete) == (0, 3, 1)
    ws.sync()
    assert (ws.stores.annotations.last_sequence(), ws.stores.tables.episodes.version()) == before


def test_without_the_spec_of_the_first_night_nothing_is_read_otherwise(ws: Workspace, videos: Path) -> None:
    ingest_paths(ws.stores, [str(videos)], SourceOptions(rate_hz=7.0), quiet=True)
    shutil.copy(videos / "C_front.mp4", videos / "A_front.mp4")
    report = ingest_paths(ws.stores, [str(videos)], quiet=True).to_report()
    assert report.kept == 0 and any("with the spec or options" in item.reason for item in report.warnings)
    assert {episode.rate_hz for episode in ws.episodes} == {7.0}
    assert ingest_paths(ws.stores, [str(videos)], SourceOptions(rate_hz=7.0), quiet=True).counts.kept == 1


def test_what_was_made_of_old_content_is_hidden_and_made_again(ws: Workspace, demo_samples: Path) -> None:
    ingest_paths(ws.stores, [str(demo_samples / "rlds")], quiet=True)
    assert ws.annotate("motion", quiet=True)[0].kept == 12
    (episode_id, *_) = sorted(ws.stores.tables.episodes.ids())
    values = ws.stores.tables.episodes.read_columns(["idle_share"], f"episode_id = '{episode_id}'")
    assert outdate_annotations(ws.stores.annotations, [episode_id], [CHECKER.maker_id]) == 1
    ws.sync()
    assert len(ws.episodes.where("idle_share IS NULL")) == 1
    (report,) = ws.annotate("motion", quiet=True)
    assert (report.kept, report.already) == (1, 11)
    again = ws.stores.tables.episodes.read_columns(["idle_share"], f"episode_id = '{episode_id}'")
    assert again == values and ws.annotate("motion", quiet=True)[0].already == 12
