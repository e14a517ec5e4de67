"""What files and folders are where no dataset says so, and which folders are not entered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ares.jobs import UnreadFile
from ares_ingest.discovery import discover, make_ingest_plan, unread_file_lines
from ares_ingest.discovery.tree import SortedPaths, classify_unclaimed_file
from tests.ingesting import request_for

MIB = 2**20


@pytest.mark.parametrize(
    ("name", "size", "use", "detail"),
    [
        ("._a.mp4", 100, "not_data", "AppleDouble"),
        ("Thumbs.db", 100, "not_data", "operating system"),
        ("a.mp4.part", 100, "unreadable", "download that did not end"),
        (".part", 100, "unreadable", "download that did not end"),
        (".hidden", 100, "not_data", "hidden"),
        ("README", 9 * MIB, "not_data", "by its name"),
        ("notes.json", MIB, "not_data", "by its name"),
        ("steps.json", MIB + 1, "unused", "no format reads it"),
        ("model.urdf", 9 * MIB, "not_data", "by its name"),
        ("a.pkl", 100, "unused", "can run code"),
        ("a.tar.gz", 100, "unused", "unpack it first"),
        ("a.mp4", 0, "unused", "the file is empty"),
        ("a.xyz", 100, "unused", "no format reads it"),
    ],
)
def test_a_file_is_told_by_its_name_and_size(name: str, size: int, use: str, detail: str) -> None:
    kind = classify_unclaimed_file(f"/nowhere/{name}", name, size)
    assert kind.use == use and detail in kind.detail
    missing = classify_unclaimed_file(f"/nowhere/{name}", name, size, is_missing=True)
    assert missing.use == ("not_data" if name in ("._a.mp4", "Thumbs.db") else "pointer")


def _write_episode(folder: Path) -> Path:
    folder.mkdir(parents=True)
    values = np.random.default_rng(0).normal(size=(5, 2))
    np.savez(folder / "episode_0.npz", state=values, action=values)
    return folder


def test_folders_that_hold_no_datasets_are_named_and_not_entered(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    for name in ("sets/z", "raw/blobs"):
        _write_episode(lab / name)
    (lab / "sets" / "a").symlink_to(lab / "sets" / "z")
    ignored = {
        "ws": "a workspace of ARES",
        ".git": "hidden",
        "__MACOSX": "macOS",
        "hub/blobs": "Hugging Face",
    }
    for name in ignored:
        _write_episode(lab / name)
    (lab / "ws" / "workspace.json").write_text("{}")
    (lab / "ws" / "lance").mkdir()
    (lab / "hub" / "snapshots").mkdir()
    (tree,) = discover(request_for([str(lab)])).trees
    entered = {Path(folder).relative_to(lab).as_posix() for folder in tree.folders}
    assert entered == {".", "sets", "sets/z", "raw", "raw/blobs", "hub", "hub/snapshots"}
    left = {Path(file.path).relative_to(lab).as_posix(): file.detail for file in tree.left_out}
    assert left.keys() == {*ignored, "sets/a"}
    assert "read where it lies" in left["sets/a"]
    for name, reason in ignored.items():
        assert reason in left[name]


def test_left_files_are_counted_by_kind_use_and_reason() -> None:
    left = [UnreadFile(path=f"/a/{number}.tar.gz", use="unused", detail="why") for number in range(3)]
    left += [UnreadFile(path="/a/b.gz", use="unused", detail="why")]
    left += [UnreadFile(path=f"/a/{name}", use="unreadable", detail="how") for name in ("one", ".two")]
    assert list(unread_file_lines(left, 2)) == [
        "unused: 3 .tar.gz files, the first /a/0.tar.gz: why",
        "unreadable: 2 files, the first /a/one: how",
        "... and 1 more; --json lists them all",
    ]
    assert list(unread_file_lines(left[3:4], 2)) == ["unused: /a/b.gz: why"]


def test_a_folder_whose_name_begins_alike_lies_beside_and_not_below() -> None:
    paths = SortedPaths(["/a/bc", "/a/b/c", "/a/b", "/a/b-d"])
    assert list(paths.below("/a/b")) == ["/a/b", "/a/b/c"]
    assert paths.any_below("/a") and not paths.any_below("/a/b/c/d") and not paths.any_below("/a/b-")


def test_the_files_of_a_dataset_that_cannot_be_opened_have_its_error(tmp_path: Path) -> None:
    _write_episode(tmp_path / "good")
    broken = tmp_path / "broken"
    (broken / "meta").mkdir(parents=True)
    (broken / "meta" / "info.json").write_text("[]")
    (broken / "states.xyz").write_bytes(b"0" * 100)
    discovery = discover(request_for([str(tmp_path)]))
    (error,) = (str(dataset.error) for dataset in discovery.datasets if dataset.error is not None)
    plan = make_ingest_plan(discovery.trees, discovery.datasets)
    details = {Path(file.path).name: file.detail for file in plan.left_files}
    assert details["states.xyz"] == error
