"""`ares annotate success --evaluate`: only labelled episodes are judged, and what they are worth is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from app.cli.main import main
from ares.search import compute_facets
from ares.settings import Settings
from ares.workspace import open_workspace
from benchmarks.synthetic_media import write_videos
from tests.app.cli.conftest import Refused
from tests.workspaces import CommandResult

EPISODES = 40
Run = Callable[..., CommandResult]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of small videos of four tasks."""
    folder = tmp_path_factory.mktemp("success")
    videos = write_videos(folder / "videos", EPISODES, side=32)
    rows = [
        {"file_name": f"{n:06d}.mp4", "episode_id": f"{n:06d}", "instruction": f"open drawer {n // 2 % 4}"}
        for n in range(EPISODES)
    ]
    (videos / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["ingest", str(videos), "-w", str(folder / "ws"), "--quiet"]) == 0
    return folder / "ws"


@pytest.fixture
def evaluate(workspace: Path, tmp_path: Path, run_ares: Run) -> Run:
    """Runs the command on labels by a judge without a model."""

    def run(rows: str, *options: object) -> CommandResult:
        (tmp_path / "labels.csv").write_text(f"episode,success\n{rows}")
        words = ["annotate", "success", "--model", "clip:hash:64", "--evaluate", tmp_path / "labels.csv"]
        return run_ares(*words, "-w", workspace, *options)

    return run


def labels(count: int = EPISODES) -> str:
    return "".join(f"{n:06d},{'success' if n % 2 else 'failure'}\n" for n in range(count))


def test_only_labelled_episodes_are_judged(evaluate: Run) -> None:
    document = evaluate("000000,1\n000001,0\n000002,Partial\n000003,\nunknown,1\n", "--json").json
    evaluation = document["evaluation"]
    assert document["planned"] == evaluation["labels"] == 3
    assert evaluation["unmatched"] == 1
    counts = {
        mark: sum(n for k, n in evaluation["confusion"].items() if k.startswith(mark))
        for mark in ("success", "failure", "partial")
    }
    assert counts == {"success": 1, "failure": 1, "partial": 1}
    assert evaluation["shares"]["failures with verdict success"]["of"] == 2
    assert evaluation["auroc_length"]["value"] == 0.5


def test_people_read_intervals_and_length_beside(evaluate: Run) -> None:
    printed = evaluate(labels()).out
    assert "40 labels" in printed and "AUROC, partial counted as failure: " in printed
    assert "AUROC of length alone, shorter as success: 0.500 (0.500-0.500)" in printed


def test_a_fit_is_evaluated_on_other_tasks_and_can_be_used(
    evaluate: Run, workspace: Path, tmp_path: Path, run_ares: Run
) -> None:
    own = tmp_path / "own.yaml"
    evaluation = evaluate(labels(), "--fit", own, "--json").json["evaluation"]
    # Hashes know nothing of success: a fit that saw its own episodes would seem to.
    assert evaluation["is_fitted"] and evaluation["auroc"]["value"] < 0.9
    assert yaml.safe_load(own.read_text())["fitted_for"].startswith("clip:")
    words = ["annotate", "success", "--model", "clip:hash:64", "--combination", own, "--limit", "1"]
    done = run_ares(*words, "-w", workspace)
    assert done.status == 0 and "not calibrated" not in done.err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("000000,maybe\n", "no such label"),
        ("000000,1\n000000,0\n", "an episode has two labels"),
        ("nobody,1\n", "no label is of an episode of the workspace"),
    ],
)
def test_wrong_labels_are_one_clear_line(evaluate: Run, rows: str, message: str) -> None:
    done = evaluate(rows)
    assert done.status == 2 and message in done.err


def test_arguments_that_do_not_go_together_are_refused(workspace: Path, refused: Refused) -> None:
    own = ("-w", workspace)
    assert "give --evaluate CSV too" in refused("annotate", "success", "--fit", "own.yaml", *own)
    assert "run ares annotate success" in refused("annotate", "motion", "--evaluate", "labels.csv", *own)


def test_the_columns_filter(evaluate: Run, workspace: Path) -> None:
    assert evaluate(labels(2), "--quiet").status == 0
    columns = ["success_verdict", "success_probability"]
    where = "success_verdict in ('success', 'failure', 'unsure') and success_probability between 0 and 1"
    with open_workspace(str(workspace), Settings()) as opened:
        assert opened.stores.tables.episodes.count(where) >= 2
        assert [facet.column for facet in compute_facets(opened.stores, columns=columns)] == columns
