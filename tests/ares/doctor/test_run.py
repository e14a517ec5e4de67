"""Each promise between the stores is broken on purpose, found, and repaired where no data are lost by it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ares.annotation import Annotation, Column, Producer
from ares.doctor import Finding, run_checks
from ares.settings import settings_from_environment
from ares.store import applied_sequence, reset_applied_sequence
from ares.store.lance.table import TableWriter
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import FrameVectors
from tests.workspaces import CommandResult, copy_workspace

Corrupt = Callable[[Workspace], object]
SETTINGS = settings_from_environment({})
PRODUCERS = {
    "motion": Producer(
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
    "caption": Producer(annotator="caption", version="1", fills_segments=True),
    "grade": Producer(
        annotator="grade",
        version="1",
        columns=(
            Column(name="grade", type="string", meaning="Grade."),
            Column(name="acceptable", type="bool", meaning="Is it?"),
        ),
        subject_kind="annotation",
        after=("caption",),
    ),
    "embed": Producer(annotator="embed", version="1"),
}


def annotation(name: str, episode: str, value: dict[str, Any], **fields: Any) -> Annotation:
    """An annotation by one of the producers."""
    defaults: dict[str, Any] = {"subject": episode, "start_seconds": 0.0, "stop_seconds": 1.0, "created": ""}
    return Annotation(
        episode_id=episode, name=name, value=value, maker_id=PRODUCERS[name].maker_id, **(defaults | fields)
    )


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory, video_folder: Path) -> Path:
    """Twelve episodes with numbers, captions, grades, vectors, a set and a failure; no test changes it."""
    folder = copy_workspace(video_folder, tmp_path_factory.mktemp("complete") / "workspace")
    with closing(open_workspace(str(folder), SETTINGS)) as workspace:
        ids = sorted(workspace.stores.tables.episodes.ids())
        _annotate(workspace, ids)
        workspace.sync()
        workspace.sets.create("accepted", ids[:5], {})
        workspace.stores.annotations.put_documents(
            "failures", {f"embed/{PRODUCERS['embed'].maker_id}/nobody": {"reason": "r", "detail": "d"}}
        )
    return folder


def _annotate(workspace: Workspace, ids: Sequence[str]) -> None:
    """Write annotations of every producer, one grade after its caption was graded already, and vectors."""
    for producer in PRODUCERS.values():
        workspace.stores.annotations.add_producer(producer)
    values = {
        "phase": "reach \ud83e",
        "idle": False,
        "marks": ["a", "b"],
        "looked": "2026-01-02T03:04:05.5+01:00",
    }
    workspace.stores.annotations.append(
        [
            annotation("motion", episode_id, {"path_length": number, "events": number, **values})
            for number, episode_id in enumerate(ids)
        ]
    )
    captions = [
        annotation("caption", episode_id, {"text": f"open drawer {episode_id}"}, stop_seconds=2.0)
        for episode_id in ids
    ]
    workspace.stores.annotations.append(captions)
    verdict: dict[str, Any] = {"grade": "acceptable", "acceptable": True, "score": 1}
    subjects = {caption.episode_id: caption.annotation_id for caption in captions}
    grades = [annotation("grade", id, verdict, subject=subjects[id]) for id in ids[:6]]
    newer = annotation("grade", ids[0], {"grade": "unsure"}, subject=subjects[ids[0]], start_seconds=0.5)
    workspace.stores.annotations.append([*grades, newer])
    workspace.stores.tables.vectors("four").add([vectors(episode_id) for episode_id in ids])
    workspace.stores.annotations.append(
        [annotation("embed", episode_id, {"frames": 2, "space": "four"}) for episode_id in ids]
    )


def vectors(episode: str) -> FrameVectors:
    """Two frames of an episode in the space "four"."""
    rows = np.eye(2, 4, dtype=np.float32)
    return FrameVectors(episode_id=episode, camera="front", seconds=np.array([0.0, 1.0]), vectors=rows)


@pytest.fixture
def workspace(complete: Path, tmp_path: Path) -> Iterator[Workspace]:
    """A copy of the workspace."""
    path = copy_workspace(complete, tmp_path / "workspace")
    with closing(open_workspace(str(path), SETTINGS)) as workspace:
        yield workspace


def _dump(workspace: Workspace) -> list[object]:
    """All rows of all tables, and all documents."""
    connection = workspace.stores.tables.connection
    tables = []
    for name in connection.table_names():
        rows = connection.newest_version(name).to_table().to_pylist()
        tables.append((name, sorted(str(sorted(row.items())) for row in rows)))
    collections = ("sets", "set_members", "failures")
    return [tables, *(list(workspace.stores.annotations.find_documents(name)) for name in collections)]


def _first(workspace: Workspace) -> str:
    return min(workspace.stores.tables.episodes.ids())


def _first_rows(workspace: Workspace, table: str, count: int) -> pa.Table:
    return workspace.stores.tables.connection.newest_version(table).to_table().slice(0, count)


def _writer(workspace: Workspace, table: str) -> TableWriter:
    """The table itself, to write what no job would write."""
    writer = workspace.stores.tables.connection.open_table(table)
    assert writer is not None
    return writer


def _run_sql(workspace: Workspace, statement: str, parameters: Sequence[str] = ()) -> None:
    """Change the annotation log, which no job does."""
    store = workspace.stores.annotations
    assert isinstance(store, SqliteAnnotationStore)
    store._rows(statement, parameters)


def _duplicate_rows(table: str) -> Corrupt:
    return lambda workspace: _writer(workspace, table).add(_first_rows(workspace, table, 2))


def _unknown_key(table: str, *columns: str) -> Corrupt:
    def corrupt(workspace: Workspace) -> None:
        rows = _first_rows(workspace, table, 1)
        for column in columns:
            position = rows.schema.get_field_index(column)
            rows = rows.set_column(position, column, pa.array(["unknown"]))
        _writer(workspace, table).add(rows)

    return corrupt


def _set_value(name: str, value: object, kind: pa.DataType) -> Corrupt:
    def corrupt(workspace: Workspace) -> None:
        workspace.stores.tables.episodes.set_values(
            pa.table({"episode_id": [_first(workspace)], name: pa.array([value], kind)})
        )

    return corrupt


def _unapplied_annotation(workspace: Workspace) -> None:
    workspace.stores.annotations.append(
        [annotation("motion", _first(workspace), {"path_length": 7.5}, start_seconds=0.25)]
    )


def _delete_from(table: str) -> Corrupt:
    return lambda workspace: _writer(workspace, table).delete(f"episode_id = '{_first(workspace)}'")


def _change_grade(workspace: Workspace) -> None:
    _writer(workspace, "segments").newest().update({"grade": "'acceptable'"}, where="grade = 'unsure'")


def _orphaned_members(workspace: Workspace) -> None:
    workspace.stores.annotations.put_documents("set_members", {"never@000001/000000": ["a"]})


def _resolved_failure(workspace: Workspace) -> None:
    workspace.stores.annotations.put_documents(
        "failures", {f"ingest/{_first(workspace)}": {"reason": "r", "detail": "d"}}
    )


def _leftover_files(workspace: Workspace) -> None:
    for name in ("workspace.json.tmp", "cache/3f/3f2a.tmp.mp4"):
        path = workspace.stores.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
        os.utime(path, (1, 1))


def _drop_column(workspace: Workspace) -> None:
    """The column is there again, as every application of the log adds what producers declare, and empty."""
    workspace.stores.tables.episodes.replace_column("marks", None)
    workspace.sync()


# What does not meet is broken at once: how, the check that finds it, and how many cases.
REPAIRED: dict[str, list[tuple[Corrupt, str, int]]] = {
    "alone": [
        (_duplicate_rows("trajectories"), "each episode has one row in trajectories", 2),
        (_unknown_key("vectors_four", "episode_id"), "no vectors without an episode in four", 1),
        (_unknown_key("segments", "annotation_id", "episode_id"), "no segments without an episode", 1),
        (_orphaned_members, "no members without a set", 1),
        (_resolved_failure, "no failure of work that was done later", 1),
        (_leftover_files, "no incomplete files of killed jobs", 2),
    ],
    "twice": [
        (_duplicate_rows("episodes"), "each episode has one row in episodes", 2),
        (_duplicate_rows("segments"), "each segment has one row in segments", 2),
        (_unknown_key("trajectories", "episode_id"), "no signals without an episode", 1),
    ],
    "behind": [(_unapplied_annotation, "the index has applied every annotation", 1)],
    "forgotten": [
        (lambda ws: reset_applied_sequence(ws.stores.tables), "the index has applied every annotation", 55)
    ],
}
_SEGMENTS = "the segments are those that the log shows"
REBUILT: dict[str, tuple[Corrupt, str, int]] = {
    "caption alone": (_unknown_key("segments", "annotation_id"), _SEGMENTS, 1),
    "caption lost": (_delete_from("segments"), _SEGMENTS, 1),
    "grade lost": (_change_grade, "segment column grade matches the log", 1),
    "number": (_set_value("path_length", 99.0, pa.float64()), "column path_length matches the log", 1),
    "missing": (_set_value("events", None, pa.int64()), "column events matches the log", 1),
    "text": (_set_value("phase", "other", pa.string()), "column phase matches the log", 1),
    "column lost": (_drop_column, "column marks matches the log", 12),
}


def _first_by_day(cases: Iterable[str]) -> list[Any]:
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.slow) for case in others)]


def test_nothing_is_wrong_with_a_whole_workspace(workspace: Workspace) -> None:
    assert run_checks(workspace.stores) == []
    before = _dump(workspace)
    assert run_checks(workspace.stores, repair=True) == []
    assert _dump(workspace) == before


def _summaries(findings: Sequence[Finding]) -> list[tuple[str, int, bool]]:
    return sorted((finding.check, finding.count, finding.repaired) for finding in findings)


@pytest.mark.parametrize("case", _first_by_day(REPAIRED))
def test_what_was_broken_is_found_and_repaired(workspace: Workspace, case: str) -> None:
    before, expected = _dump(workspace), sorted((check, count) for _, check, count in REPAIRED[case])
    for corrupt, _, _ in REPAIRED[case]:
        corrupt(workspace)
    # The first run changes nothing; the second repairs.
    for repair in (False, True):
        found = _summaries(run_checks(workspace.stores, repair=repair))
        assert found == [(check, count, repair) for check, count in expected]
    assert run_checks(workspace.stores) == []
    if case != "behind":
        assert _without_sequence(_dump(workspace)) == _without_sequence(before)


@pytest.mark.parametrize("case", _first_by_day(REBUILT))
def test_what_differs_from_the_log_is_found_and_healed_as_the_finding_advises(
    workspace: Workspace,
    case: str,
    monkeypatch: pytest.MonkeyPatch,
    run_ares: Callable[..., CommandResult],
) -> None:
    """A repair leaves it; a rebuild that is killed is completed by whoever opens the workspace."""
    before = _dump(workspace)
    corrupt, check, count = REBUILT[case]
    corrupt(workspace)
    for repair in (False, True):
        (finding,) = run_checks(workspace.stores, repair=repair)
        assert (finding.check, finding.count, finding.repaired) == (check, count, False)
    assert finding.remedy == "ares doctor --rebuild"
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("ares.store.sync.apply.apply_log", _interrupt)
        run_checks(workspace.stores, rebuild=True)
    with closing(open_workspace(workspace.path, SETTINGS)) as again:
        assert again.stores.tables.segments.count() == 12
        assert run_checks(again.stores) == []
    workspace.stores.tables.episodes.set_values(
        pa.table({"episode_id": [_first(workspace)], "events": [77], "idle": [True]})
    )
    assert run_ares("doctor", "--rebuild", "-w", workspace.path).status == 0
    assert _without_sequence(_dump(workspace)) == _without_sequence(before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("writes", range(1, 21, 3))
def test_a_rebuild_that_is_killed_before_any_write_is_completed_by_the_next_command(
    workspace: Workspace, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong segment and a wrong value are there until then."""
    before, done = _dump(workspace), list[str]()
    _unknown_key("segments", "annotation_id", "episode_id")(workspace)
    _set_value("events", 77, pa.int64())(workspace)

    def wrap(method: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any, **options: Any) -> Any:
            done.append(method.__name__)
            if len(done) > writes:
                raise KeyboardInterrupt
            return method(*arguments, **options)

        return write

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        for name in ("upsert", "delete", "drop_column", "add_columns", "update"):
            patched.setattr(TableWriter, name, wrap(getattr(TableWriter, name)))
        run_checks(workspace.stores, rebuild=True)
    with closing(open_workspace(workspace.path, SETTINGS)) as again:
        assert again.stores.tables.episodes.count("events = 77") == 0
        assert _without_sequence(_dump(again)) == _without_sequence(before)


def test_of_many_episodes_a_sample_is_compared(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is said of it is what was done: damage to all is found in it, and counted in it alone."""
    ids = sorted(workspace.stores.tables.episodes.ids())
    workspace.stores.tables.episodes.set_values(pa.table({"episode_id": ids, "events": [99] * len(ids)}))
    monkeypatch.setattr("ares.doctor.log_checks._SAMPLE_EPISODES", 5)
    (finding,) = run_checks(workspace.stores)
    assert (finding.check, finding.count) == ("column events matches the log", 5)
    assert "the values of 5 episodes, drawn at random" in capsys.readouterr().err


def _without_sequence(dump: list[Any]) -> list[Any]:
    return [[pair for pair in dump[0] if pair[0] != "index_state"], *dump[1:]]


def test_a_vector_without_its_annotation_is_deleted(workspace: Workspace) -> None:
    _run_sql(workspace, "DELETE FROM facts WHERE name = 'embed' AND episode_id = ?", [_first(workspace)])
    (finding,) = run_checks(workspace.stores, repair=True)
    assert (finding.check, finding.count) == ("each vector has its annotation, in four", 2)
    assert workspace.stores.tables.vectors("four").count() == 22
    assert run_checks(workspace.stores) == []


@pytest.mark.slow
def test_vectors_that_a_killed_run_left_are_deleted(workspace: Workspace) -> None:
    """A document names the space as long as a run writes to it; annotated vectors stay."""
    annotated, unannotated = sorted(workspace.stores.tables.episodes.ids())[:2]
    workspace.stores.annotations.append(
        [annotation("motion", annotated, {"path_length": 1.0}, created="now")]
    )
    workspace.stores.tables.vectors("interrupted").add([vectors(annotated), vectors(unannotated)])
    workspace.stores.annotations.put_documents(
        "unfinished_spaces", {"interrupted": {"annotator": "nobody", "model": ""}}
    )
    (finding,) = [finding for finding in run_checks(workspace.stores) if finding.example == "interrupted"]
    assert (finding.count, finding.repaired) == (1, False)
    assert workspace.stores.tables.vectors("interrupted").count() == 4
    workspace.stores.annotations.put_documents(
        "unfinished_spaces", {"interrupted": {"annotator": "motion", "model": ""}}
    )
    workspace.stores.annotations.append(
        [annotation("motion", unannotated, {"path_length": 1.0}, created="later")]
    )
    workspace.stores.tables.vectors("interrupted").add([vectors("without annotation")])
    assert all(finding.repaired for finding in run_checks(workspace.stores, repair=True))
    assert workspace.stores.tables.vectors("interrupted").count() == 4
    assert run_checks(workspace.stores) == []


def test_vectors_whose_producer_names_no_space_are_not_checked(workspace: Workspace) -> None:
    workspace.stores.tables.vectors("guests").add([vectors(_first(workspace))])
    assert run_checks(workspace.stores, repair=True) == []
    assert workspace.stores.tables.vectors("guests").count() == 2


def _change_members(workspace: Workspace) -> None:
    key, ids = next(workspace.stores.annotations.find_documents("set_members"))
    assert isinstance(ids, list)
    workspace.stores.annotations.put_documents("set_members", {key: ids[1:]})


def _delete_producer(workspace: Workspace) -> None:
    _run_sql(workspace, "DELETE FROM makers WHERE body LIKE '%\"embed\"%'")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corrupt", "check"),
    [
        (_delete_from("trajectories"), "each episode has its signals"),
        (_delete_from("vectors_four"), "each annotation of an embedding has its vectors, in four"),
        (_change_members, "set accepted@1 has the members that it was frozen with"),
        (
            lambda ws: ws.sets.create("strange", ["nobody"], {}),
            "each member of set strange@1 is an episode of the workspace",
        ),
        (_delete_producer, "each annotation has a known producer"),
    ],
)
def test_what_cannot_be_repaired_is_reported_with_what_to_do(
    workspace: Workspace, corrupt: Corrupt, check: str
) -> None:
    corrupt(workspace)
    for _ in range(2):
        (finding,) = run_checks(workspace.stores, repair=True)
        assert (finding.check, finding.repaired, finding.count) == (check, False, 1)
        assert finding.remedy


@pytest.mark.slow
def test_an_older_log_under_a_newer_index(workspace: Workspace, complete: Path) -> None:
    """The annotations were brought back from a backup; the index follows them."""
    _unapplied_annotation(workspace)
    workspace.sync()
    assert workspace.stores.tables.episodes.count("path_length = 7.5") == 1
    path, settings, folder = workspace.path, workspace.settings, workspace.stores.folder
    workspace.close()
    shutil.copy(complete / "annotations.sqlite", folder)
    for name in ("annotations.sqlite-wal", "annotations.sqlite-shm"):
        (folder / name).unlink(missing_ok=True)
    reopened = open_workspace(path, settings)
    checks = [finding.check for finding in run_checks(reopened.stores, repair=True)]
    assert checks == ["the index is no newer than the log"]
    assert reopened.stores.tables.episodes.count("path_length = 7.5") == 0
    assert applied_sequence(reopened.stores.tables) == reopened.stores.annotations.last_sequence()
    reopened.close()
