"""Each promise between the stores is broken by hand, found, mended where nothing is lost by it, and told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from annotators.base import FrameVectors
from ares.annotation import Annotation, Column, Maker
from ares.doctor import examine
from ares.settings import from_environment
from ares.store.index import applied_sequence, forget_log
from ares.workspace import Workspace, open_workspace
from ingest.load import load

Break = Callable[[Workspace], None]
SETTINGS = from_environment({})
MAKERS = {
    "motion": Maker(
        annotator="motion",
        version="1",
        columns=(
            Column(name="path_length", type="float64", meaning="Way."),
            Column(name="phase", type="string", meaning="Phase."),
            Column(name="idle", type="bool", meaning="Idle."),
            Column(name="events", type="int64", meaning="Events."),
            Column(name="marks", type="list<string>", meaning="Marks."),
            Column(name="looked", type="timestamp", meaning="When."),
        ),
    ),
    "caption": Maker(annotator="caption", version="1"),
    "grade": Maker(annotator="grade", version="1"),
    "embed": Maker(annotator="embed", version="1"),
}


def fact(name: str, episode: str, value: dict[str, Any], **said: Any) -> Annotation:
    """A fact of one of the makers."""
    plain: dict[str, Any] = {"subject": episode, "start_seconds": 0.0, "stop_seconds": 1.0, "created": ""}
    return Annotation(
        episode_id=episode, name=name, value=value, maker_id=MAKERS[name].maker_id, **(plain | said)
    )


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """Twelve episodes with numbers, captions, grades, vectors, a set and a failure; nobody changes it."""
    folder = tmp_path_factory.mktemp("whole") / "workspace"
    with closing(open_workspace(str(folder), SETTINGS)) as ws:
        load(ws, [str(demo_samples / "video")], quiet=True)
        ids = sorted(ws.tables.episodes.ids())
        for maker in MAKERS.values():
            ws.annotations.add_maker(maker)
        values = {
            "phase": "reach \ud83e",
            "idle": False,
            "marks": ["a", "b"],
            "looked": "2026-01-02T03:04:05.5+01:00",
        }
        ws.annotations.append(
            [fact("motion", one, {"path_length": at, "events": at, **values}) for at, one in enumerate(ids)]
        )
        captions = [fact("caption", one, {"text": f"open drawer {one}"}, stop_seconds=2.0) for one in ids]
        ws.annotations.append(captions)
        verdict: dict[str, Any] = {"grade": "acceptable", "acceptable": True, "score": 1}
        grades = [fact("grade", one.episode_id, verdict, subject=one.annotation_id) for one in captions[:6]]
        changed = fact(
            "grade", ids[0], {"grade": "unsure"}, subject=captions[0].annotation_id, start_seconds=0.5
        )
        ws.annotations.append([*grades, changed])
        ws.tables.vectors("four").add([vectors(one) for one in ids])
        ws.annotations.append([fact("embed", one, {"frames": 2, "space": "four"}) for one in ids])
        ws.sync()
        ws.sets.create("accepted", ids[:5], {})
        ws.annotations.put(
            "failures", {f"embed/{MAKERS['embed'].maker_id}/nobody": {"reason": "r", "detail": "d"}}
        )
    return folder


def vectors(episode: str) -> FrameVectors:
    """Two frames of an episode in the space "four"."""
    rows = np.eye(2, 4, dtype=np.float32)
    return FrameVectors(episode_id=episode, camera="front", seconds=np.array([0.0, 1.0]), vectors=rows)


@pytest.fixture
def ws(whole: Path, tmp_path: Path) -> Iterator[Workspace]:
    """A copy of the workspace."""
    shutil.copytree(whole, tmp_path / "workspace")
    with closing(open_workspace(str(tmp_path / "workspace"), SETTINGS)) as opened:
        yield opened


def _dump(ws: Workspace) -> list[object]:
    """All rows of all tables, and all documents."""
    tables = []
    for name in ws.tables.names():
        dataset = ws.tables.dataset(name)
        assert dataset is not None
        rows = dataset.to_table()
        tables.append((name, sorted(map(str, rows.to_pylist()))))
    return [tables, *(list(ws.annotations.find(name)) for name in ("sets", "set_members", "failures"))]


def _first(ws: Workspace) -> str:
    return min(ws.tables.episodes.ids())


def _twice(table: str) -> Break:
    def broken(ws: Workspace) -> None:
        rows = ws.tables.dataset(table).to_table().slice(0, 2)  # type: ignore[union-attr]
        ws.tables.find(table).add(rows)  # type: ignore[union-attr]

    return broken


def _stranger(table: str, column: str) -> Break:
    def broken(ws: Workspace) -> None:
        rows = ws.tables.dataset(table).to_table().slice(0, 1)  # type: ignore[union-attr]
        at = rows.schema.get_field_index(column)
        ws.tables.find(table).add(rows.set_column(at, column, pa.array(["stranger"])))  # type: ignore[union-attr]

    return broken


def _value(name: str, value: object, kind: pa.DataType) -> Break:
    def broken(ws: Workspace) -> None:
        ws.tables.episodes.set_values(pa.table({"episode_id": [_first(ws)], name: pa.array([value], kind)}))

    return broken


def _behind(ws: Workspace) -> None:
    ws.annotations.append([fact("motion", _first(ws), {"path_length": 7.5}, start_seconds=0.25)])


def _segment_lost(ws: Workspace) -> None:
    ws.tables.find("segments").delete(f"episode_id = '{_first(ws)}'")  # type: ignore[union-attr]


def _grade_lost(ws: Workspace) -> None:
    ws.tables.find("segments").update(where="grade = 'unsure'", values={"grade": "acceptable"})  # type: ignore[union-attr]


def _members_left(ws: Workspace) -> None:
    ws.annotations.put("set_members", {"never@000001/000000": ["a"]})


def _failure_left(ws: Workspace) -> None:
    ws.annotations.put("failures", {f"ingest/{_first(ws)}": {"reason": "r", "detail": "d"}})


def _file_left(ws: Workspace) -> None:
    for name in ("workspace.json.tmp", "cache/3f/3f2a.tmp.mp4"):
        path = ws.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
        os.utime(path, (1, 1))


def _index_lost(ws: Workspace) -> None:
    ws.annotations._rows("DROP INDEX facts_counts")  # type: ignore[attr-defined]


def _forgotten(ws: Workspace) -> None:
    forget_log(ws.tables)


MENDED: dict[str, tuple[Break, str, int]] = {
    "episode twice": (_twice("episodes"), "each episode stands once in episodes", 2),
    "signals twice": (_twice("trajectories"), "each episode stands once in trajectories", 2),
    "signals alone": (_stranger("trajectories", "episode_id"), "no signals without an episode", 1),
    "vectors alone": (_stranger("vectors_four", "episode_id"), "no vectors without an episode in four", 1),
    "caption alone": (_stranger("segments", "annotation_id"), "no segments without a caption in the log", 1),
    "caption twice": (_twice("segments"), "each caption stands once in segments", 2),
    "caption lost": (_segment_lost, "segments are the captions of the log with their grades", 1),
    "grade lost": (_grade_lost, "segments are the captions of the log with their grades", 1),
    "number": (_value("path_length", 99.0, pa.float64()), "column path_length shows what the log says", 1),
    "missing": (_value("events", None, pa.int64()), "column events shows what the log says", 1),
    "text": (_value("phase", "other", pa.string()), "column phase shows what the log says", 1),
    "behind": (_behind, "the index has applied every annotation", 1),
    "forgotten": (_forgotten, "the index has applied every annotation", 55),
    "members": (_members_left, "no members without a set", 1),
    "failure": (_failure_left, "no failure of what was done since", 1),
    "files": (_file_left, "no files that a killed job left half made", 2),
    "index": (_index_lost, "the annotations have every index", 1),
}


def test_nothing_is_wrong_with_a_whole_workspace(ws: Workspace) -> None:
    assert examine(ws) == []
    before = _dump(ws)
    assert examine(ws, repair=True) == []
    assert _dump(ws) == before


@pytest.mark.parametrize("case", MENDED)
def test_what_was_broken_is_found_and_mended(ws: Workspace, case: str) -> None:
    broken, check, count = MENDED[case]
    before = _dump(ws)
    broken(ws)
    found = [(one.check, one.count, one.repaired) for one in examine(ws)]
    assert found == [(check, count, False)]
    # The first look changed nothing; the second mends.
    assert [(one.check, one.count, one.repaired) for one in examine(ws, repair=True)] == [
        (check, count, True)
    ]
    assert examine(ws) == []
    if case != "behind":
        after = _dump(ws)
        assert _without_sequence(after) == _without_sequence(before)


def _without_sequence(dump: list[Any]) -> list[Any]:
    return [[pair for pair in dump[0] if pair[0] != "index_state"], *dump[1:]]


def test_a_vector_without_its_fact_is_dropped(ws: Workspace) -> None:
    ws.annotations._rows("DELETE FROM facts WHERE name = 'embed' AND episode_id = ?", [_first(ws)])  # type: ignore[attr-defined]
    (found,) = examine(ws, repair=True)
    assert (found.check, found.count) == ("each vector has the fact that it was made, in four", 2)
    assert ws.tables.vectors("four").count() == 22
    assert examine(ws) == []


def test_vectors_that_a_killed_run_left_go(ws: Workspace) -> None:
    """Their space is marked as long as a run writes to it; what its maker has done stays."""
    done, lost = sorted(ws.tables.episodes.ids())[:2]
    ws.annotations.append([fact("motion", done, {"path_length": 1.0}, created="now")])
    ws.tables.vectors("left").add([vectors(done), vectors(lost)])
    ws.annotations.put("unfinished_spaces", {"left": {"annotator": "nobody", "model": ""}})
    (found,) = [one for one in examine(ws) if one.example == "left"]
    assert (found.count, found.repaired) == (1, False)
    assert ws.tables.vectors("left").count() == 4
    ws.annotations.put("unfinished_spaces", {"left": {"annotator": "motion", "model": ""}})
    ws.annotations.append([fact("motion", lost, {"path_length": 1.0}, created="later")])
    ws.tables.vectors("left").add([vectors("gone before its fact")])
    assert all(one.repaired for one in examine(ws, repair=True))
    assert ws.tables.vectors("left").count() == 4
    assert examine(ws) == []


def test_vectors_whose_maker_names_no_space_are_left_alone(ws: Workspace) -> None:
    ws.tables.vectors("guests").add([vectors(_first(ws))])
    assert examine(ws, repair=True) == []
    assert ws.tables.vectors("guests").count() == 2


def _signals_lost(ws: Workspace) -> None:
    ws.tables.find("trajectories").delete(f"episode_id = '{_first(ws)}'")  # type: ignore[union-attr]


def _vectors_lost(ws: Workspace) -> None:
    ws.tables.find("vectors_four").delete(f"episode_id = '{_first(ws)}'")  # type: ignore[union-attr]


def _member_changed(ws: Workspace) -> None:
    key, ids = next(ws.annotations.find("set_members"))
    assert isinstance(ids, list)
    ws.annotations.put("set_members", {key: ids[1:]})


def _member_gone(ws: Workspace) -> None:
    ws.sets.create("strange", ["nobody"], {})


def _maker_gone(ws: Workspace) -> None:
    ws.annotations._rows("DELETE FROM makers WHERE body LIKE '%\"embed\"%'")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (_signals_lost, "each episode has its signals"),
        (_vectors_lost, "each fact of an embedding has its vectors, in four"),
        (_member_changed, "set accepted@1 has the members that it was frozen with"),
        (_member_gone, "each member of set strange@1 is an episode of the workspace"),
        (_maker_gone, "each fact says what made it"),
    ],
)
def test_what_cannot_be_mended_is_told_with_what_to_do(ws: Workspace, broken: Break, check: str) -> None:
    broken(ws)
    for _ in range(2):
        (found,) = examine(ws, repair=True)
        assert (found.check, found.repaired, found.count) == (check, False, 1)
        assert found.remedy


def test_an_older_log_under_a_newer_index(ws: Workspace, whole: Path) -> None:
    """The annotations were brought back from a backup; the index follows them."""
    _behind(ws)
    ws.sync()
    assert ws.tables.episodes.count("path_length = 7.5") == 1
    ws.close()
    shutil.copy(whole / "annotations.sqlite", ws.folder)
    for name in ("annotations.sqlite-wal", "annotations.sqlite-shm"):
        (ws.folder / name).unlink(missing_ok=True)
    again = open_workspace(ws.path, ws.settings)
    found = [one.check for one in examine(again, repair=True)]
    assert found == ["the index is no newer than the log"]
    assert again.tables.episodes.count("path_length = 7.5") == 0
    assert applied_sequence(again.tables) == again.annotations.last_sequence()
    again.close()
