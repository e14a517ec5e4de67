"""`ares annotate segment --spans FILE`: spans of a file become segments of stored episodes, beside all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.errors import AresError, RequestError
from ares.input import OUTSIDE
from ares.jobs import AnnotateReport
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from ares_ingest.base import SourceOptions
from tests.annotators.runs import annotate
from tests.ingesting import ingest_paths
from tests.workspaces import CommandResult, copy_workspace

SETTINGS = settings_from_environment({})


@pytest.fixture(scope="module")
def two_datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two datasets with an episode ep_0 each, and one of them with ep_1; two seconds at 10 Hz. It is only copied."""
    folder = tmp_path_factory.mktemp("spans")
    values = np.linspace(0, 1, 20)[:, None] * np.ones(3)
    with open_workspace(str(folder / "workspace"), SETTINGS) as opened:
        for name, count in (("day", 2), ("night", 1)):
            (folder / name).mkdir()
            for number in range(count):
                np.savez(folder / name / f"ep_{number}.npz", state=values, action=values)
            ingest_paths(opened.stores, [str(folder / name)], SourceOptions(rate_hz=10.0), quiet=True)
    return folder / "workspace"


@pytest.fixture
def ws(two_datasets: Path, tmp_path: Path) -> Iterator[Workspace]:
    with open_workspace(str(copy_workspace(two_datasets, tmp_path / "workspace")), SETTINGS) as opened:
        yield opened


def add(ws: Workspace, path: Path, text: str) -> AnnotateReport:
    path.write_text(text)
    options = Options(settings=SETTINGS, values={"spans": str(path)})
    (report,) = annotate(ws.stores, ["segment"], options, quiet=True)
    return report


def shown(ws: Workspace) -> list[tuple[Any, ...]]:
    rows = ws.stores.tables.episodes.read_columns(["episode_id", "dataset", "key"]).to_pylist()
    names = {row["episode_id"]: f"{row['dataset']}/{row['key']}" for row in rows}
    columns = ("start_seconds", "stop_seconds", "text", "style", "author")
    return sorted(
        (names[row["episode_id"]], *(row[column] for column in columns))
        for row in ws.stores.tables.segments.read().to_pylist()
        if row["annotator"] == "spans"
    )


def test_spans_of_a_file_become_segments_and_what_is_not_read_is_told(ws: Workspace, tmp_path: Path) -> None:
    table = (
        "episode,start_frame,stop_frame,text,author\n"
        "ep_1,0,5,grab,human\nep_1,0,5,hold,human\nday/ep_0,5,40,lift,a-model\nep_0,0,5,whose,\nep_9,0,5,gone,\n"
    )
    for _ in range(2):
        report = add(ws, tmp_path / "spans.csv", table)
        assert shown(ws) == [
            ("day/ep_0.npz", 0.5, 2.0, "lift", "subtask", "a-model"),
            ("day/ep_1.npz", 0.0, 0.5, "grab", "subtask", "person"),
            ("day/ep_1.npz", 0.0, 0.5, "hold", "subtask", "person"),
        ]
    lost = {loss.reason: (loss.count, loss.example) for loss in report.lost}
    assert lost == {
        "spans name episodes that are not here, or that are several by that name": (2, "spans.csv: ep_0")
    }


def test_a_number_that_json_has_not_costs_no_episode(ws: Workspace, tmp_path: Path) -> None:
    row = '{"episode": "ep_1", "start_frame": 0, "stop_frame": 5, "text": "lift", "score": 1e400, "more": [1e400]}'
    report = add(ws, tmp_path / "spans.jsonl", row)
    assert (report.failed, report.kept, [text for *_, text, _, _ in shown(ws)]) == (0, 3, ["lift"])


def test_spans_that_are_lost_end_the_command_with_1_and_are_counted_by_reason(
    ws: Workspace, tmp_path: Path, run_ares: Callable[..., CommandResult]
) -> None:
    path = tmp_path / "spans.csv"
    rows = ("ep_1,0,1,a", "ep_1,3,4,b", "ep_1,5,6,c", "ep_9,0,1,d", "ep_1,1,0.5,e", "ep_1,0,1,a")
    header = "episode,start_seconds,stop_seconds,text"
    path.write_text("\n".join([header, *rows]) + "\n")
    command = ("annotate", "segment", "--spans", path, "-w", ws.path)
    printed = run_ares(*command, "--json")
    document = printed.json
    assert printed.status == 1
    assert (document["failed"], sorted(loss["count"] for loss in document["lost"])) == (0, [1, 1, 2])
    assert {loss["reason"] for loss in document["lost"]} >= {f"spans {OUTSIDE}"}
    assert [warning["reason"][:25] for warning in document["warnings"]] == ["spans.csv: spans that are"]
    assert len(shown(ws)) == 1
    path.write_text(f"{header}\n{rows[0]}\n{rows[-1]}\n")
    printed = run_ares(*command)
    assert printed.status == 0 and "lost" not in printed.out


def test_spans_stay_when_a_segmenter_runs_and_match_its_segments(ws: Workspace, tmp_path: Path) -> None:
    add(ws, tmp_path / "spans.csv", "episode,start_seconds,stop_seconds,text\nep_1,0,2.0,lift\n")
    before = shown(ws)
    annotate(ws.stores, ["segment"], Options(settings=SETTINGS), quiet=True)
    assert shown(ws) == before != []
    rows = ws.stores.tables.segments.read().to_pylist()
    assert {row["annotator"] for row in rows} == {"spans", "segment"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("episode,success\nep_1,1\n", "lacks columns: .*needed are episode, text, and start_seconds"),
        ("episode,start,end,text\nep_1,0,1,a\n", "rename start to start_seconds .or start_frame."),
        ("episode,start_frame,stop_frame,text\nep_0,0,1,a\n", "no span of a stored episode"),
    ],
)
def test_a_file_without_a_span_of_a_stored_episode_is_refused(
    ws: Workspace, tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(AresError, match=reason):
        add(ws, tmp_path / "spans.csv", text)


def test_an_author_by_a_first_name_is_asked_about_and_not_stored(ws: Workspace, tmp_path: Path) -> None:
    table = (
        "episode,start_frame,stop_frame,text,author\n"
        "ep_1,0,5,grab,Ada\nep_1,5,9,hold,person\nday/ep_0,5,40,lift,org/model-7B\n"
    )
    report = add(ws, tmp_path / "spans.csv", table)
    assert [(row[3], row[5]) for row in shown(ws)] == [("lift", "org/model-7B"), ("hold", "person")]
    (loss,) = report.lost
    assert "author 'Ada', who is neither `person` nor a known model" in loss.reason and loss.count == 1
    with pytest.raises(RequestError, match="author 'Ada'"):
        add(ws, tmp_path / "ada.csv", "episode,start_frame,stop_frame,text,author\nep_1,0,5,grab,Ada\n")
    add(ws, tmp_path / "named.csv", "episode,start_frame,stop_frame,text,annotator\nep_1,0,5,pull,Ada\n")
    assert ("pull", "person") in {(row[3], row[5]) for row in shown(ws)}
