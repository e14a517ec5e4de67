"""The ingester of a path is found by its content; a path without a dataset is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.errors import RequestError
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from ingest.base import SourceOptions
from tests.ingesting import ingest_paths


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return open_workspace(str(tmp_path / "workspace"), settings_from_environment({}))


def test_what_is_no_dataset_is_refused_in_one_line(ws: Workspace, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(RequestError, match="not a recognised dataset: formats tried: agibot, "):
        ingest_paths(ws.stores, [str(tmp_path / "notes.txt")], quiet=True)
    with pytest.raises(RequestError, match="no such file"):
        ingest_paths(ws.stores, [str(tmp_path / "nowhere")], quiet=True)
    with pytest.raises(
        RequestError,
        match=r"no ingester 'rdls': did you mean 'rlds'\? there are: agibot, .*, rlds, ",
    ):
        ingest_paths(ws.stores, [str(tmp_path)], format="rdls", quiet=True)


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
        f"{lab}/all.tar.gz: an archive: unpack it first",
        f"{lab}/policy_out.pkl: reading a pickle can run code",
    ):
        assert words in str(caught.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RequestError, match="it holds no file"):
        ingest_paths(ws.stores, [str(tmp_path / "empty")], quiet=True)
