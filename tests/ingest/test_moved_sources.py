"""A source that changed, is missing or was moved is noticed on reading, reported by the doctor, and relocated."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ares.doctor import parse_relocation, relocate_sources, run_checks
from ares.doctor.sources import source_files
from ares.episode import Episode
from ares.errors import MediaError, RequestError
from ares.media import browser_video, encoded_frames, frames_at
from ares.store.lance import schema as arrow
from ares.workspace import Workspace, open_workspace
from ares_ingest.base import SourceOptions
from tests.ingesting import ingest_paths


@pytest.fixture
def lab(tmp_path: Path, demo_samples: Path) -> Path:
    """A copy of the samples: folders rlds and video."""
    shutil.copytree(demo_samples, tmp_path / "lab")
    return tmp_path / "lab"


def first_episode(ws: Workspace, format: str) -> Episode:
    return next(iter(ws.stores.tables.episodes.read(f"format = '{format}'")))


def overwrite(path: Path, at: int) -> None:
    """Other content of the same size, as by a disk that forgets."""
    data = bytearray(path.read_bytes())
    data[at] ^= 255
    path.write_bytes(bytes(data))
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))


def test_a_file_that_changed_or_is_missing_is_told_with_the_way_out(ws: Workspace, lab: Path) -> None:
    ingest_paths(ws.stores, [str(lab / "video")], quiet=True)
    longer, other, missing = (
        episode.cameras[0].media for episode, _ in zip(ws.episodes, range(3), strict=False)
    )
    shown, before = frames_at(other, [0.0]), Path(longer.uri).stat().st_size
    os.utime(other.uri, ns=(0, 1))
    assert (frames_at(other, [0.0]) == shown).all()
    overwrite(Path(other.uri), -1)
    with pytest.raises(MediaError, match="changed since"):
        encoded_frames(other)
    with Path(longer.uri).open("ab") as file:
        file.write(b"more")
    with pytest.raises(MediaError, match=f"changed since.*had {before} bytes, it has {before + 4}"):
        frames_at(longer, [0.0])
    with pytest.raises(MediaError, match="changed since"):
        browser_video(longer, "h264", ws.stores.media_cache)
    Path(missing.uri).unlink()
    with pytest.raises(MediaError, match=r"file is missing.*--relocate OLD=NEW"):
        frames_at(missing, [0.0])


@pytest.mark.slow
def test_the_doctor_counts_files_once_each(ws: Workspace, lab: Path) -> None:
    """A shard of RLDS that changed has many episodes, and a video that is gone one."""
    ingest_paths(ws.stores, [str(lab)], quiet=True)
    assert run_checks(ws.stores) == []
    shard = first_episode(ws, "rlds").source
    overwrite(Path(shard), -1)
    gone = sorted((lab / "video" / "videos").glob("*.mp4"))[:3]
    for path in gone:
        path.unlink()
    changed, missing = run_checks(ws.stores)
    assert (changed.count, missing.count) == (1, 3)
    assert "changed" in changed.check and shard in changed.example
    assert "missing" in missing.check and str(gone[0]) in missing.example and "--relocate" in missing.remedy


def test_a_moved_dataset_is_followed_and_known_there(ws: Workspace, lab: Path, tmp_path: Path) -> None:
    ingest_paths(ws.stores, [str(lab / "rlds")], SourceOptions(rate_hz=10.0), quiet=True)
    ingest_paths(ws.stores, [str(lab / "video")], SourceOptions(dataset="lab"), quiet=True)
    before = {episode.episode_id: episode for episode in ws.stores.tables.episodes.read()}
    pictures = {
        episode_id: frames_at(episode.cameras[0].media, [0.0, 0.5]).tobytes()
        for episode_id, episode in before.items()
    }
    lab.rename(tmp_path / "lab2")  # its name begins with the old one's
    (moved,) = relocate_sources(ws.stores, [(str(lab), str(tmp_path / "lab2"))])
    assert moved.repaired and moved.count == len(list(source_files(ws.stores))) == 26
    assert run_checks(ws.stores) == []
    for episode in ws.stores.tables.episodes.read():
        old = before[episode.episode_id]
        assert frames_at(episode.cameras[0].media, [0.0, 0.5]).tobytes() == pictures[episode.episode_id]
        assert episode.source == old.source.replace("/lab/", "/lab2/")
        assert [camera.name for camera in episode.cameras] == [camera.name for camera in old.cameras]
    again = ingest_paths(
        ws.stores, [str(tmp_path / "lab2" / "video")], SourceOptions(dataset="lab"), quiet=True
    ).counts
    assert (again.already, again.failed) == (12, 0)
    (nothing,) = relocate_sources(ws.stores, [(str(lab), str(tmp_path / "lab2"))])
    assert nothing.count == 0 and not nothing.repaired


@pytest.mark.slow
def test_what_is_not_the_same_at_the_new_place_stays(ws: Workspace, lab: Path, tmp_path: Path) -> None:
    ingest_paths(ws.stores, [str(lab / "video")], quiet=True)
    new = tmp_path / "new"
    lab.rename(new)
    videos = sorted((new / "video" / "videos").glob("*.mp4"))
    overwrite(videos[0], 100)
    videos[1].unlink()
    moved, refused = relocate_sources(ws.stores, [(str(lab), str(new))])
    assert (moved.count, refused.count) == (22, 2)
    assert "changed" in refused.example and not refused.repaired
    unmoved = {Path(uri).name for uri, _ in source_files(ws.stores) if uri.startswith(f"{lab}/")}
    assert unmoved == {videos[0].name, videos[1].name}
    with pytest.raises(RequestError, match="no such file"):
        relocate_sources(ws.stores, [(str(lab), str(tmp_path / "nowhere"))])


@pytest.mark.slow
def test_a_workspace_from_before_stamps_goes_on(ws: Workspace, lab: Path) -> None:
    ingest_paths(ws.stores, [str(lab / "video")], limit=1, quiet=True)
    (old,) = ws.stores.tables.episodes.read()
    table = ws.stores.tables.connection.open_table("episodes")
    assert table is not None
    table.newest().drop_columns(list(arrow.STAMP_COLUMNS))
    fresh = open_workspace(ws.path, ws.settings)
    assert [camera.media.stamp for camera in next(iter(fresh.stores.tables.episodes.read())).cameras] == [
        "",
        "",
    ]
    assert frames_at(fresh.stores.tables.episodes.get_episode(old.episode_id).cameras[0].media, [0.0]).any()
    assert run_checks(fresh.stores) == []
    ingest_paths(fresh.stores, [str(lab / "video")], quiet=True)
    stamps = {episode.episode_id: episode.source_stamp for episode in fresh.stores.tables.episodes.read()}
    assert stamps.pop(old.episode_id) == "" and len(stamps) == 11 and all(stamps.values())
    assert len(list(source_files(fresh.stores))) == 24
    (moved,) = relocate_sources(fresh.stores, [(str(lab), str(lab))])
    assert moved.count == 24
    assert fresh.stores.tables.episodes.get_episode(old.episode_id) == replace(old, label_stamp="")
    for verify, again, not_compared in ((False, 0, [1]), (True, 1, []), (False, 0, [])):
        report = ingest_paths(fresh.stores, [str(lab / "video")], quiet=True, verify=verify).counts.fields()
        told = [part.count for part in report["warnings"] if "only --verify compares" in part.reason]
        assert (told, report["kept"]) == (not_compared, again)


def test_a_move_is_parsed_at_the_sign_before_a_place_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "day=2").mkdir()
    assert parse_relocation(f"/data/day=1={tmp_path}/day=2") == ("/data/day=1", f"{tmp_path}/day=2")
    assert parse_relocation("/a=/b") == ("/a", "/b")
    with pytest.raises(RequestError, match="OLD=NEW"):
        parse_relocation("/a")
