"""Outcomes that are neither success nor failure: of labels, of a spec and of people; counted, filtered, exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ares import open as open_workspace
from ares.errors import RequestError
from ares.workspace import Workspace
from ares_ingest.outcomes import read_outcome
from tests.ares.export.made_episodes import make_record
from tests.torture.datasets import write_video


@pytest.mark.parametrize(
    ("success", "metadata", "outcome", "share"),
    [
        (True, {}, "success", None),
        (False, {"status": "Aborted"}, "aborted", None),
        (None, {"labels": {"outcome": "partial", "progress": 0.4}}, "partial", 0.4),
        (None, {"ares/outcome": "partial", "ares/outcome_share": 0.25}, "partial", 0.25),
        (None, {"success": "0.5"}, "partial", 0.5),
        (None, {"task_progress": 0.7}, "partial", 0.7),
        (None, {"result": "dropped it", "progress": 7}, None, None),
    ],
)
def test_an_outcome_is_read_from_what_a_source_says(
    success: bool | None, metadata: dict[str, Any], outcome: str | None, share: float | None
) -> None:
    stated = read_outcome(make_record(0, success=success, metadata=metadata).episode)
    assert (stated.outcome, stated.share) == (outcome, share)


@pytest.fixture
def labelled(tmp_path: Path) -> Workspace:
    """Four videos with an outcome of each kind; success stays true, false or null."""
    write_video(tmp_path / "videos", 4)
    table = tmp_path / "videos" / "metadata.jsonl"
    if not table.exists():
        table = next(path for path in (tmp_path / "videos").iterdir() if path.suffix != ".mp4")
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    ends = [
        {"outcome": "success", "grade": 1}, {"outcome": "partial", "grade": "0.6"},
        {"outcome": "aborted", "grade": 0.2}, {"outcome": "failure", "grade": 0},
    ]  # fmt: skip
    table.write_text("".join(json.dumps(row | end) + "\n" for row, end in zip(rows, ends, strict=True)))
    (tmp_path / "spec.yaml").write_text("outcome_share: grade\nreference: lab\nverified: all\n")
    ws = open_workspace(tmp_path / "ws", create=True)
    report = ws.ingest(tmp_path / "videos", spec=tmp_path / "spec.yaml", quiet=True)
    assert "neither success nor failure" not in str(report.to_json())
    return ws


def test_outcomes_are_filtered_counted_corrected_and_exported(labelled: Workspace, tmp_path: Path) -> None:
    rows = labelled.stores.tables.episodes.read_columns(["outcome", "outcome_share", "success"]).to_pylist()
    assert sorted((row["outcome"], row["outcome_share"], row["success"]) for row in rows) == [
        ("aborted", 0.2, None), ("failure", 0.0, False), ("partial", 0.6, None), ("success", 1.0, True)
    ]  # fmt: skip
    (aborted,) = labelled.episodes.where("outcome = 'aborted'").ids()
    labelled.correct(aborted, outcome="partial 0.3", person="kim")
    with pytest.raises(RequestError, match="a number from 0 to 1: got 'half'"):
        labelled.correct(aborted, outcome="partial half", person="kim")
    (row,) = labelled.episodes.where("outcome = 'partial' AND outcome_source = 'person'").ids()
    assert row == aborted and {*labelled.episodes.where("outcome_share BETWEEN 0.25 AND 0.5").ids()} == {
        aborted
    }
    labelled.export(labelled.episodes, tmp_path / "out", quiet=True)
    with open_workspace(tmp_path / "again", create=True) as again:
        again.ingest(tmp_path / "out", quiet=True)
        assert len(again.episodes.where("outcome = 'partial' AND outcome_share IS NOT NULL")) == 2


def test_what_a_person_said_before_an_export_is_no_answer_of_a_person_here(tmp_path: Path) -> None:
    """It stays when a person here gives an outcome of another episode."""
    write_video(tmp_path / "videos", 2)
    with open_workspace(tmp_path / "ws", create=True) as ws:
        ws.ingest(tmp_path / "videos", quiet=True)
        ws.correct(next(iter(ws.episodes.ids())), outcome="success", person="kim")
        ws.export(ws.episodes, tmp_path / "out", quiet=True)
    with open_workspace(tmp_path / "again", create=True) as again:
        again.ingest(tmp_path / "out", quiet=True)
        assert not len(again.episodes.where("outcome_source = 'person' OR success_source = 'person'"))
        (other,) = again.episodes.where("success IS NULL").ids()
        again.correct(other, outcome="failure", person="ann")
        (kept,) = again.episodes.where("success AND outcome_source = 'person of the source'").ids()
        assert [*again.episodes.where("outcome_source = 'person'").ids()] == [other] and kept != other
