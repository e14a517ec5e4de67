"""An export that is ingested again: its episodes are found by content, not by number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares import open as open_workspace
from ares.annotation import Annotation, Column, Producer
from ares.workspace import Workspace
from ares_app.cli.main import main
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingesting import ingest_paths
from tests.thinning import some_by_day

CAPTIONER = Producer(
    annotator="caption", version="2", model="m", kind="model",
    columns=(Column(name="caption", type="string", meaning="what happens"),),
)  # fmt: skip

# It judges captions, as graders and people do.
JUDGE = Producer(
    annotator="rating", version="1", model="m", kind="model", subject_kind="annotation", after=("caption",),
    columns=(Column(name="rating", type="string", meaning="what a judge says"),),
)  # fmt: skip


def write_robomimic(path: Path) -> Path:
    """Three demonstrations of different lengths without cameras."""
    random = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        for number in range(3):
            group = file.create_group(f"data/demo_{number}")
            group["actions"] = random.normal(size=(9 + number, 7)).astype("float32")
            group["obs/robot0_joint_pos"] = random.normal(size=(9 + number, 7)).astype("float32")
    return path


@pytest.fixture(
    scope="module",
    params=["v3.0", *(pytest.param(name, marks=pytest.mark.slow) for name in ("hdf5", "v2.1"))],
)
def labelled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Three episodes with captions and a set of two."""
    folder = tmp_path_factory.mktemp("labelled")
    if request.param == "hdf5":
        source = write_robomimic(folder / "demo.hdf5")
    else:
        source = write_good_folder(folder / "made", version=request.param, lengths=(6, 9, 7))
    workspace = open_workspace(folder / "ws", create=True)
    ingest_paths(workspace.stores, [str(source)], quiet=True)
    rows = workspace.stores.tables.episodes.read_columns(["episode_id", "num_steps"]).to_pylist()
    last = sorted(rows, key=lambda row: row["num_steps"])[1:]  # so that an export numbers them again
    captions = [make_caption(row["episode_id"], row["num_steps"]) for row in rows]
    for producer, made in ((CAPTIONER, captions), (JUDGE, list(map(_rating, captions)))):
        workspace.stores.annotations.add_producer(producer)
        workspace.stores.annotations.append(made)
    workspace.sync()
    workspace.sets.create("last", [row["episode_id"] for row in last])
    yield workspace
    workspace.close()


def make_caption(episode_id: str, steps: int) -> Annotation:
    return Annotation(
        episode_id=episode_id, name="caption", value={"caption": f"it takes {steps} steps"}, subject=episode_id,
        maker_id=CAPTIONER.maker_id, start_seconds=0.0, stop_seconds=1.0, created="2026-11-27T00:00:00+00:00",
    )  # fmt: skip


def _rating(caption: Annotation) -> Annotation:
    return replace(
        caption, name="rating", maker_id=JUDGE.maker_id, subject=caption.annotation_id, subject_kind="annotation",
        value={"rating": f"true: {caption.value['caption']}"},
    )  # fmt: skip


@pytest.mark.parametrize("format", some_by_day(["lerobot", "lerobot-v2.1", "rlds"], 2))
def test_an_export_of_known_episodes_is_not_stored_twice(
    labelled: Workspace, tmp_path: Path, format: str
) -> None:
    labelled.export("last", tmp_path / "out", format=format, quiet=True)
    before = labelled.stores.tables.episodes.count()
    counts = ingest_paths(labelled.stores, [str(tmp_path / "out")], quiet=True).counts
    assert (counts.planned, counts.kept, counts.failed) == (2, 0, 0)
    assert labelled.stores.tables.episodes.count() == before
    assert [part.count for part in counts.fields()["warnings"] if "is an export of" in part.reason] == [2]


@pytest.mark.slow
def test_a_purged_episode_does_not_come_back_through_an_export(tmp_path: Path) -> None:
    source = write_good_folder(tmp_path / "made", version="v3.0", lengths=(6, 9))
    workspace = open_workspace(tmp_path / "ws", create=True)
    ingest_paths(workspace.stores, [str(source)], quiet=True)
    selection = workspace.sets.create("all", where="num_steps > 0")
    workspace.export("all", tmp_path / "out", quiet=True)
    first = next(iter(selection.ids()))
    assert main(["remove", "--purge", "--yes", "-q", "-w", workspace.path, first]) == 0
    counts = ingest_paths(workspace.stores, [str(tmp_path / "out")], quiet=True).counts
    assert (counts.kept, counts.planned) == (0, 2)
    assert any("deleted for good" in part.reason for part in counts.fields()["warnings"])
