"""Every format is read from an object store as from a disk, by ranges; a failure there is one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ares.doctor import relocate_sources, run_checks
from ares.errors import MediaError
from ares.media import browser_video, frames_at, thumbnail
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from ares_app.cli.main import main
from ares_ingest.base import SourceOptions
from tests.conftest import S3
from tests.ingesting import ingest_paths
from tests.thinning import some_by_day


def workspace(folder: Path) -> Workspace:
    return open_workspace(str(folder), settings_from_environment({}))


def assert_same_episodes(local: Workspace, remote: Workspace) -> None:
    """The same episodes with the same content, and the same pictures of the first one."""
    assert remote.stores.tables.episodes.ids() == local.stores.tables.episodes.ids()
    for number, episode in enumerate(local.stores.tables.episodes.read()):
        copy = remote.stores.tables.episodes.get_episode(episode.episode_id)
        assert copy.source.startswith("s3://") and copy.source_stamp
        assert copy.content_hash == episode.content_hash and copy.metadata == episode.metadata
        if number == 0:
            seconds = [0.0, episode.duration_seconds / 2]
            frames = [frames_at(shown.cameras[0].media, seconds) for shown in (episode, copy)]
            assert (frames[0] == frames[1]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sample",
    some_by_day(["rlds", "video", "gr1_sim_lerobot_v20", "g1_bottle_lerobot_v30", "aloha_hdf5", "mcap"]),
)
def test_every_format_is_the_same_from_a_bucket(
    s3_environ: S3, tmp_path: Path, demo_samples: Path, request: pytest.FixtureRequest, sample: str
) -> None:
    place = demo_samples if sample in ("rlds", "video") else request.getfixturevalue("shared_data")
    folder = place / sample
    bucket = s3_environ.bucket()
    s3_environ.upload(folder, f"{bucket}/lab/{sample}")
    local, remote = workspace(tmp_path / "local"), workspace(tmp_path / "remote")
    ingest_paths(local.stores, [str(folder)], limit=2, quiet=True)
    report = ingest_paths(remote.stores, [f"s3://{bucket}/lab/{sample}"], limit=2, quiet=True).counts
    assert (report.kept, report.failed) == (2, 0)
    assert_same_episodes(local, remote)
    media = next(iter(remote.stores.tables.episodes.read())).cameras[0].media
    assert browser_video(media, "h264", remote.stores.media_cache).stat().st_size > 1000
    assert thumbnail(media, 0.0, 64, remote.stores.media_cache).is_file()
    assert run_checks(remote.stores) == []


def test_records_are_read_by_ranges(s3_environ: S3, tmp_path: Path, demo_samples: Path) -> None:
    bucket = s3_environ.bucket()
    s3_environ.upload(demo_samples / "rlds", bucket)
    ws = workspace(tmp_path / "ws")
    ingest_paths(ws.stores, [f"s3://{bucket}"], limit=1, quiet=True)
    (episode,) = ws.stores.tables.episodes.read()
    s3_environ.asked.clear()
    frames_at(episode.cameras[0].media, [0.0])
    ranges = [header.removeprefix("bytes=").split("-") for method, _, header in s3_environ.asked if header]
    read = sum(int(stop) - int(start) + 1 for start, stop in ranges)
    size = int(episode.source_stamp.split(":")[0])
    assert all(header or method == "HEAD" for method, _, header in s3_environ.asked)
    assert episode.cameras[0].media.byte_size <= read < size / 2


@pytest.mark.nightly
def test_a_shard_that_the_server_cannot_give_costs_its_records(
    s3_environ: S3, tmp_path: Path, demo_samples: Path
) -> None:
    bucket = s3_environ.bucket()
    s3_environ.upload(demo_samples / "rlds", bucket)
    s3_environ.broken.add("00001-of-00002")
    report = ingest_paths(workspace(tmp_path / "ws").stores, [f"s3://{bucket}"], quiet=True).counts
    assert (report.planned, report.kept, report.failed) == (12, 6, 6)
    (failure,) = report.failures.values()
    assert "00001-of-00002" in failure.example
    s3_environ.broken.clear()
    again = ingest_paths(workspace(tmp_path / "ws").stores, [f"s3://{bucket}"], quiet=True).counts
    assert (again.kept, again.already, again.failed) == (6, 6, 0)


@pytest.mark.slow
def test_a_changed_object_is_noticed_and_a_moved_bucket_followed(
    s3_environ: S3, tmp_path: Path, demo_samples: Path
) -> None:
    old, new = s3_environ.bucket(), s3_environ.bucket()
    s3_environ.upload(demo_samples / "rlds", old)
    ws = workspace(tmp_path / "ws")
    ingest_paths(ws.stores, [f"s3://{old}"], quiet=True)
    s3_environ.upload(demo_samples / "rlds", new)
    (moved,) = relocate_sources(ws.stores, [(f"s3://{old}", f"s3://{new}")])
    assert moved.repaired and moved.count == 2
    (back,) = relocate_sources(ws.stores, [(f"s3://{new}", str(demo_samples / "rlds"))])
    assert back.count == 2
    (again,) = relocate_sources(ws.stores, [(str(demo_samples / "rlds"), f"s3://{new}")])
    assert again.count == 2
    episode = next(iter(ws.stores.tables.episodes.read()))
    path = Path(episode.source).relative_to(Path(f"s3://{new}"))
    data = bytearray((demo_samples / "rlds" / path).read_bytes())
    data[-1] ^= 255
    s3_environ.put(f"{new}/{path}", bytes(data))
    with pytest.raises(MediaError, match="changed since it was ingested"):
        frames_at(episode.cameras[0].media, [0.0])
    (finding,) = run_checks(ws.stores)
    assert "changed" in finding.check and finding.count == 1


@pytest.mark.slow
def test_what_cannot_be_reached_is_one_clear_line(
    s3_environ: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from s3fs import S3FileSystem

    def error_line(url: str) -> str:
        S3FileSystem.clear_instance_cache()
        assert main(["ingest", url, "-w", str(tmp_path / "ws")]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        return str(line)

    assert "is not a supported URL scheme" in error_line("ftpx://host/folder")
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    assert "pip install 'ares-curation[gs]'" in error_line("gs://bucket/folder")
    assert "no such file or folder" in error_line("s3://there-is-no-such-bucket/folder")
    assert len(s3_environ.asked) < 10, "what is not there is not asked for again and again"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "cannot be reached" in error_line("s3://bucket/folder")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert "credentials" in error_line("s3://bucket/folder")
    assert not (tmp_path / "ws").exists()


def test_any_fsspec_place_will_do(tmp_path: Path, demo_samples: Path) -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    try:
        store.put(str(demo_samples / "rlds"), "/lab", recursive=True)
        ws = workspace(tmp_path / "ws")
        report = ingest_paths(ws.stores, ["memory://lab"], SourceOptions(dataset="kept"), quiet=True).counts
        assert (report.kept, report.failed) == (12, 0)
        assert frames_at(next(iter(ws.stores.tables.episodes.read())).cameras[0].media, [0.0]).any()
    finally:
        store.store.clear()
        store.pseudo_dirs[:] = [""]
