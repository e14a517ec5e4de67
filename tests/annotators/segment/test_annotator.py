"""`ares annotate segment`: spans of each arm as segments, and the texts of people and sources stay what they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from ares.annotation import Annotation, Producer
from ares.jobs import AnnotateReport
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from ares_annotators.segment.annotator import COLUMNS
from ares_annotators.segment.spans import Boundary, join_boundaries
from ares_ingest.base import SourceOptions
from tests.annotators.runs import annotate
from tests.annotators.samples import make_annotation
from tests.ingesting import ingest_paths

SETTINGS = settings_from_environment({})
NAMES = tuple(f"{side}_{name}" for side in ("left", "right") for name in ("joint_0", "joint_1", "gripper"))
SOURCE = Producer(annotator="source_subtask", version="1", fills_segments=True)


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    """Ten seconds in which the left arm moves from 2 to 5 and closes at 6, and the right one moves from 4 to 8."""
    seconds = np.arange(0, 10, 0.05)
    left, right = (np.clip((seconds - start) / (stop - start), 0, 1) for start, stop in ((2, 5), (4, 8)))
    closed = np.clip((seconds - 5.9) / 0.2, 0, 1)
    state = np.stack([left, -left, 1 - closed, right, right, 0 * right], axis=1).astype(np.float32)
    folder = tmp_path / "data"
    folder.mkdir()
    for key, values in (("moves", state), ("rests", state * 0)):
        np.savez(folder / f"{key}.npz", state=values, action=values)
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"reference: a test\nstate: [{{key: state, names: [{', '.join(NAMES)}]}}]\n")
    with open_workspace(str(tmp_path / "workspace"), SETTINGS) as opened:
        options = SourceOptions(rate_hz=20.0, spec=str(spec))
        ingest_paths(opened.stores, [str(folder)], options, quiet=True)
        yield opened


def _segment(ws: Workspace) -> AnnotateReport:
    (report,) = annotate(ws.stores, ["segment"], Options(settings=SETTINGS), quiet=True)
    return report


def _segments(ws: Workspace, key: str) -> list[Annotation]:
    (episode,) = ws.stores.tables.episodes.ids(f"key LIKE '%{key}%'")
    return ws.stores.annotations.find_annotations([episode], names=["segment"])


def _say(ws: Workspace, key: str, texts: Sequence[tuple[str, float, float]], revision: int = 0) -> None:
    (episode,) = [own for own in ws.stores.tables.episodes.read() if key in own.key]
    ws.stores.annotations.add_producer(SOURCE)
    for text, *span in texts:
        value = {"text": text, "style": "subtask", "author": "person"} if text else {"withdrawn": True}
        said = make_annotation(SOURCE, episode, value, (span[0], span[1]), revision=revision)
        ws.stores.annotations.append([said])


def test_an_episode_is_cut_and_one_in_which_nothing_happens_is_one_span(ws: Workspace) -> None:
    report = _segment(ws)
    assert (report.kept, report.failed, report.warnings) == (2, 0, ())
    (whole,) = _segments(ws, "rests")
    assert (whole.start_seconds, whole.stop_seconds, whole.value["arm"]) == (0.0, 10.0, "")
    assert whole.value["boundary"] == {"source": "start", "confidence": 1.0}
    made = _segments(ws, "moves")
    for arm, expected in (("left", [0, 2, 5, 6]), ("right", [0, 4, 8])):
        starts = [own.start_seconds for own in made if own.value["arm"] == arm]
        assert starts == pytest.approx(expected, abs=0.2)
        assert [own.stop_seconds for own in made if own.value["arm"] == arm] == [*starts[1:], 10.0]
    assert len({own.annotation_id for own in made}) == len(made) == 7
    assert {own.value["style"] for own in made} == {"subtask"}
    # Two arms may have one span.
    assert all(own.part == own.value["arm"] for own in made)
    rows = ws.stores.tables.episodes.read_columns(["key", "num_segments"]).to_pylist()
    assert sorted(row["num_segments"] for row in rows) == [1, 7]
    assert {name for own in made for name in own.value} >= {column.name for column in COLUMNS}
    segments = ws.stores.tables.segments
    assert segments.count("arm = 'left'") == 4
    assert segments.count("annotator = 'segment' AND arm = 'right' AND start_seconds > 1") == 2
    assert "arm" not in ws.stores.tables.episodes.columns()
    assert {own.columns.get("arm") for own in ws.search_segments(where="start_seconds > 1")} == {
        "left",
        "right",
    }
    assert _segment(ws).already == 2


def test_texts_of_the_source_stay_beside_the_segments(ws: Workspace) -> None:
    _say(ws, "moves", [("reach", 2.1, 5.0), ("old", 5.0, 6.0)])
    _say(ws, "moves", [("", 5.0, 6.0)], revision=1)
    assert not _segment(ws).warnings
    assert all(own.value["text"] == "" for own in _segments(ws, "moves"))
    assert ws.stores.tables.segments.count("annotator = 'source_subtask' AND text = 'reach'") == 1


def test_the_surest_boundary_stays_where_several_are_too_near() -> None:
    boundaries = [
        Boundary(second, "rest", sure)
        for second, sure in (
            (0.2, 1.0),
            (1.0, 0.5),
            (1.2, 0.9),
            (1.45, 0.8),
            (1.6, 0.7),
            (5.8, 1.0),
            (7.0, 1.0),
        )
    ]
    assert [own.seconds for own in join_boundaries(boundaries, 6.0)] == [1.2, 1.6]
    assert join_boundaries([], 0.1) == ()
