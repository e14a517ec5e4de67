"""Every format is read from an object store as from a disk, by ranges, and what fails there is told in one line."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from app.cli.main import main
from ares.doctor import examine, follow
from ares.errors import MediaError, RequestError
from ares.media.frames import frames_at
from ares.media.playable import playable, thumbnail
from ares.settings import from_environment
from ares.workspace import Workspace, open_workspace
from ingest.base import Options
from ingest.load import load
from tests.conftest import S3


def workspace(folder: Path) -> Workspace:
    return open_workspace(str(folder), from_environment({}))


def assert_equal(local: Workspace, remote: Workspace) -> None:
    """The same episodes with the same signals, and the same pictures of the first one."""
    assert remote.tables.episodes.ids() == local.tables.episodes.ids()
    for number, episode in enumerate(local.episodes()):
        found = remote.episode(episode.episode_id)
        assert found.source.startswith("s3://") and found.source_stamp
        assert found.content_hash == episode.content_hash and found.metadata == episode.metadata
        here, there = local.trajectory(episode.episode_id), remote.trajectory(episode.episode_id)
        assert (here.timestamps == there.timestamps).all()
        for one, other in ((here.state, there.state), (here.action, there.action)):
            assert (one is None) == (other is None)
            assert one is None or other is None or np.array_equal(one.values, other.values, equal_nan=True)
        if number == 0:
            seconds = [0.0, episode.duration_seconds / 2]
            shown = [frames_at(each.cameras[0].media, seconds) for each in (episode, found)]
            assert (shown[0] == shown[1]).all()


@pytest.mark.parametrize(
    "sample", ["rlds", "video", "gr1_sim_lerobot_v20", "g1_bottle_lerobot_v30", "aloha_hdf5", "mcap"]
)
def test_every_format_is_the_same_from_a_bucket(
    s3_environ: S3, tmp_path: Path, demo_samples: Path, request: pytest.FixtureRequest, sample: str
) -> None:
    folder = (
        demo_samples / sample
        if sample in ("rlds", "video")
        else request.getfixturevalue("shared_data") / sample
    )
    bucket = s3_environ.bucket()
    s3_environ.upload(folder, f"{bucket}/lab/{sample}")
    local, remote = workspace(tmp_path / "local"), workspace(tmp_path / "remote")
    load(local, [str(folder)], limit=2, quiet=True)
    report = load(remote, [f"s3://{bucket}/lab/{sample}"], limit=2, quiet=True).report
    assert (report.kept, report.failed) == (2, 0)
    assert_equal(local, remote)
    media = next(iter(remote.episodes())).cameras[0].media
    assert playable(media, "h264", remote.cache).stat().st_size > 1000
    assert thumbnail(media, 0.0, 64, remote.cache).is_file()
    assert examine(remote) == []


def test_records_are_read_by_ranges(s3_environ: S3, tmp_path: Path, demo_samples: Path) -> None:
    bucket = s3_environ.bucket()
    s3_environ.upload(demo_samples / "rlds", bucket)
    ws = workspace(tmp_path / "ws")
    load(ws, [f"s3://{bucket}"], limit=1, quiet=True)
    (episode,) = ws.episodes()
    s3_environ.asked.clear()
    frames_at(episode.cameras[0].media, [0.0])
    ranges = [asked.removeprefix("bytes=").split("-") for method, _, asked in s3_environ.asked if asked]
    read = sum(int(stop) - int(start) + 1 for start, stop in ranges)
    size = int(episode.source_stamp.split(":")[0])
    assert all(asked or method == "HEAD" for method, _, asked in s3_environ.asked)
    assert episode.cameras[0].media.byte_size <= read < size / 2


def test_a_shard_that_the_server_cannot_give_costs_its_records(
    s3_environ: S3, tmp_path: Path, demo_samples: Path
) -> None:
    bucket = s3_environ.bucket()
    s3_environ.upload(demo_samples / "rlds", bucket)
    s3_environ.broken.add("00001-of-00002")
    report = load(workspace(tmp_path / "ws"), [f"s3://{bucket}"], quiet=True).report
    assert (report.planned, report.kept, report.failed) == (12, 6, 6)
    (failure,) = report.failures.values()
    assert "00001-of-00002" in failure.example
    s3_environ.broken.clear()
    again = load(workspace(tmp_path / "ws"), [f"s3://{bucket}"], quiet=True).report
    assert (again.kept, again.already, again.failed) == (6, 6, 0)


def test_a_changed_object_is_noticed_and_a_moved_bucket_followed(
    s3_environ: S3, tmp_path: Path, demo_samples: Path
) -> None:
    old, new = s3_environ.bucket(), s3_environ.bucket()
    s3_environ.upload(demo_samples / "rlds", old)
    ws = workspace(tmp_path / "ws")
    load(ws, [f"s3://{old}"], quiet=True)
    s3_environ.upload(demo_samples / "rlds", new)
    (moved,) = follow(ws, [(f"s3://{old}", f"s3://{new}")])
    assert moved.repaired and moved.count == 2
    (back,) = follow(ws, [(f"s3://{new}", str(demo_samples / "rlds"))])
    assert back.count == 2
    (again,) = follow(ws, [(str(demo_samples / "rlds"), f"s3://{new}")])
    assert again.count == 2
    episode = next(iter(ws.episodes()))
    path = Path(episode.source).relative_to(Path(f"s3://{new}"))
    data = bytearray((demo_samples / "rlds" / path).read_bytes())
    data[-1] ^= 255
    s3_environ.put(f"{new}/{path}", bytes(data))
    with pytest.raises(MediaError, match="changed since it was ingested"):
        frames_at(episode.cameras[0].media, [0.0])
    (found,) = examine(ws)
    assert "changed" in found.check and found.count == 1


def test_what_cannot_be_reached_is_one_clear_line(
    s3_environ: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from s3fs import S3FileSystem

    def told(url: str) -> str:
        S3FileSystem.clear_instance_cache()
        started = time.monotonic()
        assert main(["ingest", url, "-w", str(tmp_path / "ws")]) == 2
        assert time.monotonic() - started < 20
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1
        return lines[0]

    assert "is no kind of place" in told("ftpx://host/folder")
    assert "pip install 'ares-curation[gs]'" in told("gs://bucket/folder")
    assert "no such file or folder" in told("s3://there-is-no-such-bucket/folder")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "cannot be reached" in told("s3://bucket/folder")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert "credentials" in told("s3://bucket/folder")
    assert not (tmp_path / "ws").exists()


def test_any_fsspec_place_will_do(tmp_path: Path, demo_samples: Path) -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    try:
        store.put(str(demo_samples / "rlds"), "/lab", recursive=True)
        ws = workspace(tmp_path / "ws")
        report = load(ws, ["memory://lab"], Options(dataset="kept"), quiet=True).report
        assert (report.kept, report.failed) == (12, 0)
        assert frames_at(next(iter(ws.episodes())).cameras[0].media, [0.0]).any()
    finally:
        store.store.clear()
        store.pseudo_dirs[:] = [""]


def test_a_name_that_is_no_url_is_refused_as_before(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no such file or folder"):
        load(workspace(tmp_path / "ws"), [str(tmp_path / "nowhere")])
