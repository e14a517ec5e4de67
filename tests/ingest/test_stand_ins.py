"""A Git LFS pointer in the place of any file of any format is named as one, and so is a link without its target."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ares.errors import AresError
from ares.input import refuse_outside_links
from ares.settings import Settings
from ares.workspace import open_workspace
from ares_ingest.pipeline import find_datasets
from tests.ingest.agibot.conftest import write_agibot
from tests.ingest.image_folders.conftest import write_dataset
from tests.ingesting import request_for
from tests.torture.datasets import WRITERS

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123456\n"
ADVICE = "git lfs pull"
# What a reader says of bytes that it does not understand.
WRONG_WORDS = (
    "damaged",
    "is cut",
    "not JSON",
    "no JSON",
    "not a JSON",
    "cannot be decoded",
    "no known family",
)
# Attributes of Zarr groups below the root, which no reader opens.
NEVER_READ = (".zgroup", ".zattrs")


def write_npz(folder: Path, count: int) -> None:
    """Episodes of signals, with a JSON file beside each."""
    folder.mkdir(parents=True)
    for number in range(count):
        values = np.random.default_rng(number).normal(size=(9, 3)).astype("float32")
        np.savez(folder / f"episode_{number}.npz", state=values, action=values)
        (folder / f"episode_{number}.json").write_text('{"instruction": "lift"}')


FORMATS: dict[str, Callable[[Path, int], object]] = {
    **WRITERS,
    "npz": write_npz,
    "csv": lambda folder, count: write_dataset(folder),
    "agibot": lambda folder, count: write_agibot(folder),
}


def one_of_each_kind(folder: Path) -> list[Path]:
    """The first file of each suffix and name without digits, relative to the folder."""
    kinds: dict[str, Path] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = "".join(letter for letter in path.name if not letter.isdigit())
        kinds.setdefault(f"{path.parent.name if path.suffix == '' else ''}{name}", path.relative_to(folder))
    return list(kinds.values())


def everything_said(folder: Path, workspace: Path) -> Iterator[str]:
    """What the plan, the datasets and their records say."""
    with open_workspace(str(workspace), Settings()) as ws:
        try:
            found = find_datasets(ws.stores, request_for([str(folder)]))
        except AresError as error:
            yield str(error)
            return
        for dataset in found.plan.datasets:
            yield from (dataset.error, *dataset.not_understood)
        yield from (f"{file.path}: {file.detail}" for file in found.plan.left_files)
        for source in found.sources:
            for item in source.items:
                try:
                    with refuse_outside_links(str(folder)):
                        warnings = item.load().warnings
                    yield from warnings
                except AresError as error:
                    yield str(error)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_git_lfs_pointer_is_named_in_the_place_of_any_file(kind: str, tmp_path: Path) -> None:
    good = tmp_path / "good"
    FORMATS[kind](good, 2)
    for number, name in enumerate(one_of_each_kind(good)):
        if name.name in NEVER_READ:
            continue
        folder = tmp_path / f"bad{number}"
        shutil.copytree(good, folder)
        (folder / name).write_bytes(POINTER)
        said = list(everything_said(folder, tmp_path / f"ws{number}"))
        assert any(ADVICE in text for text in said), (name, said)
        assert not [text for text in said if any(words in text for words in WRONG_WORDS)], name


@pytest.mark.parametrize("kind", ["lerobot", "hdf5", "mcap", "zarr", "csv", "agibot"])
def test_a_link_whose_target_is_missing_is_named(kind: str, tmp_path: Path) -> None:
    """The cache of Hugging Face holds such links where a download did not end."""
    good = tmp_path / "good"
    FORMATS[kind](good, 2)
    suffixes = (".parquet", ".hdf5", ".mcap", ".png", ".h5", "0.0.0.0")
    name = next(name for name in one_of_each_kind(good) if name.name.endswith(suffixes))
    (good / name).unlink()
    (good / name).symlink_to(tmp_path / "blobs" / "0123")
    said = list(everything_said(good, tmp_path / "ws"))
    assert any("link whose target is missing" in text for text in said), said


def test_a_linked_chunk_does_not_lead_out_of_a_zarr_store(tmp_path: Path) -> None:
    FORMATS["zarr"](tmp_path / "good", 2)
    chunk = tmp_path / "good" / "good.zarr" / "data" / "action" / "0.0"
    chunk.rename(tmp_path / "secret")
    chunk.symlink_to(tmp_path / "secret")
    said = list(everything_said(tmp_path / "good", tmp_path / "ws"))
    assert any("a link leads out of the dataset" in text for text in said), said
