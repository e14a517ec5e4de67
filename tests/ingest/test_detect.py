"""The ingester of a path is found by its content; a path without a dataset is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ares.errors import RequestError
from ares.workspace import Workspace
from ares_ingest.base import SourceOptions
from tests.ingesting import ingest_paths


@pytest.mark.parametrize("command", ["ingest", "check"])
def test_the_name_of_a_prepared_dataset_is_refused_with_its_folder(command: str, run_ares: Any) -> None:
    """A prepared dataset of tensorflow-datasets is its folder."""
    named = run_ares(command, "tfds:bridge_dataset:1.0.0")
    folder = "~/tensorflow_datasets/bridge_dataset/1.0.0"
    assert named.status == 2 and f"give the folder of the prepared dataset, such as {folder}" in named.err
    placed = run_ares(command, "some/path", "--data-dir", "x")
    assert placed.status == 2 and "give the folder of a prepared dataset" in placed.err


def test_an_option_of_one_dataset_is_refused_for_several(ws: Workspace, demo_samples: Path) -> None:
    for options in (SourceOptions(rate_hz=10.0), SourceOptions(dataset="lab")):
        with pytest.raises(
            RequestError, match=r"is for one dataset, and there are 2: \w+ \(rlds\), \w+ \(video\)"
        ):
            ingest_paths(ws.stores, [str(demo_samples)], options, quiet=True)
    assert ingest_paths(ws.stores, [str(demo_samples)], quiet=True).counts.kept == 24


def test_a_folder_without_a_dataset_is_told_by_what_it_holds(ws: Workspace, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    (lab / "frames").mkdir(parents=True)
    for number in range(3):
        (lab / "frames" / f"im_{number}.jpg").write_bytes(b"picture")
    (lab / "all.tar.gz").write_bytes(b"archive")
    (lab / "policy_out.pkl").write_bytes(b"pickle")
    with pytest.raises(RequestError) as caught:
        ingest_paths(ws.stores, [str(lab)], quiet=True)
    for words in (
        f"3 .jpg files, the first {lab}/frames/im_0.jpg: a picture that no episode names",
        f"{lab}/all.tar.gz: an archive, perhaps a shard of WebDataset: unpack it first",
        f"{lab}/policy_out.pkl: reading a pickle can run code",
    ):
        assert words in str(caught.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RequestError, match="it holds no file"):
        ingest_paths(ws.stores, [str(tmp_path / "empty")], quiet=True)
