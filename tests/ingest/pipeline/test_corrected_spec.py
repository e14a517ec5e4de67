"""The sheet of a dataset, and a spec that corrects what it says: ids, tags and rulings stay."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import ares
from ares.annotation import Annotation, Column, Producer
from ares.errors import RequestError
from ares.review import Answer, give_answer
from ares.workspace import Workspace
from ares_ingest.pipeline import write

CAPTIONER = Producer(
    annotator="caption", version="1", model="m", kind="model", fills_segments=True,
    columns=(Column(name="caption", type="string", meaning="Caption."),),
)  # fmt: skip
SAMPLE = Path(__file__).parents[3] / "app" / "demo" / "samples" / "rlds"
DATASET = "metaworld_sawyer"


def rule_on_a_caption(workspace: Workspace, episode_id: str) -> None:
    """A person finds a caption of the episode right."""
    caption = Annotation(
        episode_id=episode_id, name="caption", value={"text": "lift the lid", "caption": "lift the lid"},
        maker_id=CAPTIONER.maker_id, subject=episode_id, start_seconds=0.0, stop_seconds=1.0,
        created="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    workspace.stores.annotations.add_producer(CAPTIONER)
    workspace.stores.annotations.append([caption])
    about: dict[str, Any] = {
        "question": "acceptable",
        "subject_id": caption.annotation_id,
        "subject_kind": "annotation",
    }
    give_answer(workspace.stores, Answer(**about, verdict="met", person="anna"))


def sheet(workspace: Workspace) -> dict[str, str]:
    """What is believed, by what it is of."""
    return {line.what: line.belief for line in workspace.sheet(DATASET).lines}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = ares.open(tmp_path / "workspace", create=True)
    made.ingest(str(SAMPLE))
    return made


def test_every_line_of_a_sheet_names_a_key(workspace: Workspace) -> None:
    lines = workspace.sheet(DATASET).lines
    assert all(line.key and line.belief and line.origin for line in lines)
    believed = sheet(workspace)
    assert believed["state"] == "4 dimensions: x, y, z, gripper"
    assert believed["mode of action.position"] == "delta"
    assert "camera wrist_image" in believed and "instructions" in believed and "outcomes" in believed
    with pytest.raises(RequestError, match="no dataset 'nothing'"):
        workspace.sheet("nothing")


@pytest.mark.slow
def test_a_corrected_spec_changes_the_sheet_and_keeps_ids_tags_and_rulings(
    workspace: Workspace, tmp_path: Path
) -> None:
    ids = sorted(episode.episode_id for episode in workspace.episodes)
    workspace.tag("kept", ids[:2])
    rule_on_a_caption(workspace, ids[0])
    before = sheet(workspace)
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "rate_hz: 20\nrobot: our arm\ncontract:\n  state.position: {unit: mm}\nreference: our notes\n"
    )
    first = workspace.ingest(str(SAMPLE), spec=str(spec))
    after = sheet(workspace)
    assert (after["rate"], after["robot"], after["unit of state.position"]) == ("20 Hz", "our arm", "mm")
    assert before["rate"] != "20 Hz" and before["unit of state.position"] == "m"
    assert sorted(episode.episode_id for episode in workspace.episodes) == ids
    for episode_id in ids:
        known: dict[str, Any] = {**workspace.episodes[episode_id].to_json()}
        assert [tag["tag"] for tag in known["tags"]] == (["kept"] if episode_id in ids[:2] else [])
        assert ("ruling" in {annotation["name"] for annotation in known["annotations"]}) == (
            episode_id == ids[0]
        )
    rows = workspace.stores.tables.episodes.read_columns(["episode_id", "caption", "rate_hz"]).to_pylist()
    assert {row["episode_id"]: row["caption"] for row in rows} == {
        episode_id: "lift the lid" if episode_id == ids[0] else None for episode_id in ids
    }
    assert (
        len(dict(workspace.stores.tables.trajectories.read(ids)))
        == workspace.stores.tables.trajectories.count()
        == 12
    )
    again = workspace.ingest(str(SAMPLE), spec=str(spec))
    assert (first.kept, first.already, again.kept, again.already) == (12, 0, 0, 12)


@pytest.mark.slow
def test_a_correction_that_fails_is_made_by_the_next_run(tmp_path: Path) -> None:
    source = tmp_path / "data"
    shutil.copytree(SAMPLE, source)
    workspace = ares.open(tmp_path / "workspace", create=True)
    workspace.ingest(str(source))
    spec = tmp_path / "spec.yaml"
    spec.write_text("rate_hz: 20\nrobot: our arm\nreference: our notes\n")
    shard = sorted(source.rglob("*.tfrecord*"))[0]
    right = shard.read_bytes()
    shard.write_bytes(right[: len(right) // 2] + bytes(64) + right[len(right) // 2 + 64 :])
    first = workspace.ingest(str(source), spec=str(spec))
    assert first.failed and workspace.stores.tables.episodes.count() == 12
    shard.write_bytes(right)
    second = workspace.ingest(str(source), spec=str(spec))
    assert (second.failed, {episode.robot for episode in workspace.episodes}) == (0, {"our arm"})
    assert not any("read again" in belief for belief in sheet(workspace).values())
    assert workspace.ingest(str(source), spec=str(spec)).already == 12


@pytest.mark.slow
def test_corrections_are_written_together(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each version of a table is compared with all its rows: one for each batch of a reader would be too many."""
    monkeypatch.setattr(write, "_SECONDS_PER_WRITE", 1e9)
    versions = next((tmp_path / "workspace").rglob("trajectories.lance")) / "_versions"
    before, rows = len(list(versions.iterdir())), workspace.stores.tables.trajectories.count()
    spec = tmp_path / "spec.yaml"
    spec.write_text("rate_hz: 20\nrobot: our arm\nreference: our notes\n")
    assert workspace.ingest(str(SAMPLE), spec=str(spec)).kept == 12
    assert len(list(versions.iterdir())) - before == 1
    assert {episode.robot for episode in workspace.episodes} == {"our arm"}
    assert workspace.stores.tables.trajectories.count() == rows
