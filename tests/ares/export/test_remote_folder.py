"""An export to a URL is there whole or not at all, and says in one line why not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ares import open as open_workspace
from ares.errors import AresError, RequestError, StoreError
from ares.export import ExportRequest
from ares.export.remote_folder import local_destination
from ares.io import parse_path
from ares.workspace import Workspace

# As a store answers where the quota of a bucket is used; none of S3 itself, which has no quota.
_FULL = (
    "403 Forbidden",
    b"<Error><Code>QuotaExceeded</Code><Message>the quota of the bucket is used</Message></Error>",
)


def _names(url: str) -> list[str]:
    """Paths of all objects of the bucket of a URL, below the bucket."""
    bucket: Any = parse_path(url.rpartition("/")[0])
    return sorted(path.removeprefix(f"{bucket.path}/") for path in bucket.fs.find(bucket.path))


@pytest.mark.slow
def test_what_is_in_the_bucket_is_the_export_of_a_folder(
    sample_workspace: Workspace, s3_environ: Any, tmp_path: Path
) -> None:
    url = f"s3://{s3_environ.bucket()}/lab/few"
    local = sample_workspace.export("video", tmp_path / "few", quiet=True)
    report = sample_workspace.export("video", url, quiet=True)
    assert (str(report.path), report.episodes) == (url, local.episodes)
    files = {path.relative_to(local.path).as_posix() for path in local.path.rglob("*") if path.is_file()}
    assert _names(url) == sorted(f"few/{name}" for name in files)
    written = [path for method, path, _ in s3_environ.asked if method == "PUT" and "few/" in path]
    assert written[-1].endswith("few/manifest.json")
    with open_workspace(tmp_path / "again", create=True) as again:
        again.ingest(url, quiet=True)
        hashes = {row.content_hash for row in again.episodes}
    assert hashes == {row.content_hash for row in sample_workspace.sets["video"].members}
    with pytest.raises(RequestError, match="the export folder is not empty"):
        sample_workspace.export("video", url, quiet=True)
    assert not (sample_workspace.stores.folder / "uploads").exists() or not any(
        (sample_workspace.stores.folder / "uploads").iterdir()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "failure"),
    [
        ("/manifest.ep", _FULL),
        ("few/manifest.ep", None),
        ("few/manifest.ep", _FULL),
        ("PUT few/manifest.json", None),
    ],
)
def test_a_server_that_fails_leaves_nothing_and_the_repeat_encodes_nothing(
    sample_workspace: Workspace,
    s3_environ: Any,
    broken: str,
    failure: tuple[str, bytes] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket = s3_environ.bucket()
    url = f"s3://{bucket}/few"
    s3_environ.broken.add(broken.replace("PUT ", f"PUT /{bucket}/"))
    s3_environ.failure = failure or s3_environ.failure
    with pytest.raises(StoreError, match="the export cannot be written") as raised:
        sample_workspace.export("few", url, quiet=True)
    assert url in raised.value.detail and "\n" not in str(raised.value)
    assert failure is None or "the quota of the bucket is used" in raised.value.detail
    s3_environ.broken.clear()
    assert not any(name.startswith("few") for name in _names(f"{url}/"))
    monkeypatch.setattr("ares.export.lerobot.exporter._write_dataset", None)
    report = sample_workspace.export("few", url, quiet=True)
    assert report.episodes == 4 and not report.unchanged_since
    counts = json.loads((report.path / "manifest.json").read_bytes())["episodes"]["count"]
    assert counts == 4 and not any(name.startswith("few.tmp") for name in _names(f"{url}/"))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nosuch://lab/x", "nosuch:// is not a supported URL scheme"),
        ("https://lab/x", "a web server cannot be written to"),
        ("s3:/lab/x", "this is written to a local path"),
        ("memory://lab", "an export needs a folder in the bucket"),
        ("hf://lab/x", "a dataset of the hub is hf://datasets/OWNER/NAME"),
    ],
)
def test_a_url_that_cannot_be_written_is_one_line(
    sample_workspace: Workspace, url: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AresError) as refused:
        sample_workspace.export("few", url, format="jsonl", quiet=True)
    assert refused.value.reason == reason and not any(tmp_path.iterdir())


def test_a_second_export_to_a_prefix_ends_the_first(sample_workspace: Workspace, tmp_path: Path) -> None:
    url = "memory://lab/contested"
    marker: Any = parse_path(f"{url}.tmp/.ares-export")
    marker.fs.pipe_file(marker.path, b"of a run that was killed")
    left: Any = parse_path(f"{url}/left.txt")
    left.fs.pipe_file(left.path, b"half")
    put = type(marker.fs).put

    def contested(fs: Any, *arguments: Any, **options: Any) -> Any:
        fs.pipe_file(marker.path, b"of another machine")
        return put(fs, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(marker.fs), "put", contested)
        with pytest.raises(RequestError, match="another process writes this export"):
            sample_workspace.export("few", url, format="parquet", quiet=True)
    assert sample_workspace.export("few", url, format="parquet", quiet=True).episodes == 4
    assert not left.exists() and not marker.exists()
    # A whole export stays: of another set or format nothing is encoded, and its own repeat ends.
    for name, format, error, words in (
        ("video", "parquet", RequestError, "not empty"),
        ("few", "jsonl", RequestError, "not empty"),
        ("few", "parquet", StoreError, "an earlier export is there"),
    ):
        marker.fs.pipe_file(marker.path, b"of a run that was killed")
        with pytest.MonkeyPatch.context() as patch, pytest.raises(error, match=words):
            patch.setattr("ares.export.run._export_locally", None)
            if error is StoreError:
                patch.setattr(marker.fs, "pipe_file", lambda *_: _fail())
            sample_workspace.export(name, url, format=format, quiet=True)
        assert marker.exists() == (error is StoreError)
    assert sample_workspace.export("few", url, format="parquet", quiet=True).episodes == 4


# What changes a bucket.
_CHANGES = ("put_file", "cp_file", "pipe_file", "rm_file")
NAMES = ["data/a", "data/b", "manifest.json", "z"]


class _Bucket:
    """A bucket in memory in which something happens at one of the changes that are made there."""

    def __init__(self, tmp_path: Path, workspace: Workspace) -> None:
        self._workspace, self._folder, self._count = workspace, tmp_path, 0
        self.url = "memory://lab/run"
        self.fs: Any = parse_path(self.url).fs  # type: ignore[attr-defined]
        self.empty()

    def empty(self) -> None:
        self.fs.store.clear()
        self.fs.pseudo_dirs[:] = [""]

    @contextmanager
    def at(self, number: int, act: Callable[[], None], stays: bool = False) -> Iterator[None]:
        """Act before the change of a number, and where that stays before all later ones."""
        counter = itertools.count()

        def change(original: Any, *arguments: Any, **options: Any) -> Any:
            now = next(counter)
            if now == number or (stays and now > number):
                act()
            return original(*arguments, **options)

        with pytest.MonkeyPatch.context() as patch:
            for name in _CHANGES:
                patch.setattr(self.fs, name, partial(change, getattr(self.fs, name)))
            yield

    def write(self, who: str) -> bool:
        """Whether somebody, on a machine with a workspace of its own, has written an export with own files."""
        stores: Any = SimpleNamespace(folder=self._folder / f"{who}{next(_NUMBERS)}")
        request = ExportRequest(set=self._workspace.sets["few"], destination=parse_path(self.url), format="x")
        try:
            with local_destination(request, stores, quiet=True) as local:
                for name in [*NAMES, f"of-{who}"]:
                    path = local.destination / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(who)
        except (StoreError, RequestError):
            return False
        return True

    def read(self) -> dict[str, str]:
        """What every file of the export says."""
        root = f"{self.url.removeprefix('memory:/')}/"
        return {path.removeprefix(root): self.fs.cat_file(path).decode() for path in self.fs.find(root)}

    def check(self, *whole: str) -> None:
        """With a manifest the export is whole, and of one of them alone; else the next one can be written."""
        files = self.read()
        if "manifest.json" in files:
            assert files in [dict.fromkeys([*NAMES, f"of-{who}"], who) for who in whole]
            assert not self.write("c") and self.read() == files
        else:
            assert self.write("c") and self.read() == dict.fromkeys([*NAMES, "of-c"], "c")
            assert not any(".tmp/" in path for path in self.fs.store)


_NUMBERS = itertools.count()
# As many as one upload makes, and the clean-up behind it.
CHANGES = range(18)


@pytest.fixture
def bucket(tmp_path: Path, sample_workspace: Workspace) -> Iterator[_Bucket]:
    bucket = _Bucket(tmp_path, sample_workspace)
    yield bucket
    bucket.empty()


def _fail() -> None:
    raise OSError(5, "the connection is lost")


@pytest.mark.parametrize("stays", [False, True], ids=["once", "for-good"])
def test_a_connection_that_is_lost_leaves_a_whole_export_or_none(bucket: _Bucket, stays: bool) -> None:
    """At each change of the bucket; a clean-up that fails behind the manifest does not undo what is written."""
    written = []
    for number in CHANGES:
        bucket.empty()
        with bucket.at(number, _fail, stays):
            written.append(bucket.write("a"))
        assert written[-1] == ("manifest.json" in bucket.read()), number
        bucket.check("a")
    assert (written[0], written[-1]) == (False, True)


def test_of_two_writers_one_export_is_whole_or_none(bucket: _Bucket) -> None:
    """The second begins at any change of the first, and ends or is killed at any of its own."""
    for first, second in itertools.product(CHANGES, CHANGES[::3]):
        bucket.empty()
        ended = list[bool]()

        def interfere(killed_at: int = second, ended: list[bool] = ended) -> None:
            with bucket.at(killed_at, _fail, stays=True):
                ended.append(bucket.write("b"))

        with bucket.at(first, interfere):
            is_written = bucket.write("a")
        assert not (is_written and any(ended)), (first, second)
        assert (is_written or any(ended)) == ("manifest.json" in bucket.read()), (first, second)
        bucket.check("a", "b")


def test_a_dataset_of_the_hub_is_one_commit_with_the_tag_that_lerobot_looks_for(
    sample_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import HfApi

    calls: list[tuple[str, Any]] = []

    def record(name: str, answer: Any) -> None:
        def call(_: Any, *arguments: Any, **options: Any) -> Any:
            names = sorted(path.name for path in Path(options.get("folder_path", "nowhere")).glob("*"))
            calls.append((name, {**options, "names": names, "arguments": arguments}))
            return answer

        monkeypatch.setattr(HfApi, name, call)

    record("create_repo", None)
    record("list_repo_files", [".gitattributes"])
    record("upload_folder", None)
    record("create_tag", None)
    sample_workspace.export("video", "hf://datasets/lab/few", quiet=True)
    assert [name for name, _ in calls] == ["create_repo", "list_repo_files", "upload_folder", "create_tag"]
    assert calls[0][1]["private"] is True
    assert {"manifest.json", "meta", "README.md"} <= {*calls[2][1]["names"]}
    assert (calls[3][1]["arguments"], calls[3][1]["tag"]) == (("lab/few",), "v3.0")


@pytest.mark.slow
def test_a_card_in_a_bucket_makes_the_set_again(
    sample_workspace: Workspace, s3_environ: Any, demo_samples: Path, tmp_path: Path
) -> None:
    bucket = f"s3://{s3_environ.bucket()}/lab"
    sample_workspace.export("video", f"{bucket}/video", quiet=True)
    sample_workspace.sets["video"].write_lock(f"{bucket}/video.card.json", f"{bucket}/video")
    with open_workspace(tmp_path / "new", create=True) as new:
        report = new.sets.rebuild(
            f"{bucket}/video.card.json", [demo_samples / "video"], f"{bucket}/again", quiet=True
        )
    assert (report.differences, report.path) == ((), f"{bucket}/again")
    assert report.same_files > 5
