"""`ares annotate success --evaluate`: only labelled episodes are judged, and what they are worth is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.main import main
from ares.search import compute_facets
from ares.settings import Settings
from ares.workspace import open_workspace
from benchmarks.synthetic_media import write_videos

EPISODES = 40
Capture = pytest.CaptureFixture[str]


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


@pytest.fixture()
def evaluate(workspace: Path, tmp_path: Path) -> Callable[..., int]:
    """Runs the command on labels by a judge without a model."""

    def run(rows: str, *options: str) -> int:
        (tmp_path / "labels.csv").write_text(f"episode,success\n{rows}")
        words = ["annotate", "success", "--model", "clip:hash:64", "--evaluate", str(tmp_path / "labels.csv")]
        return main([*words, "-w", str(workspace), *options])

    return run


def labels(count: int = EPISODES) -> str:
    return "".join(f"{n:06d},{'success' if n % 2 else 'failure'}\n" for n in range(count))


def test_only_labelled_episodes_are_judged(evaluate: Callable[..., int], capsys: Capture) -> None:
    assert evaluate("000000,1\n000001,0\n000002,Partial\n000003,\nunknown,1\n", "--json") == 0
    document: Any = json.loads(capsys.readouterr().out)
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


def test_people_read_intervals_and_length_beside(evaluate: Callable[..., int], capsys: Capture) -> None:
    assert evaluate(labels()) == 0
    printed = capsys.readouterr().out
    assert "40 labels" in printed and "label" in printed
    assert "AUROC, partial counted as failure: " in printed
    assert "AUROC of length alone, shorter as success: 0.500 (0.500-0.500)" in printed


def test_a_fit_is_evaluated_on_other_tasks_and_can_be_used(
    evaluate: Callable[..., int], workspace: Path, tmp_path: Path, capsys: Capture
) -> None:
    own = tmp_path / "own.yaml"
    assert evaluate(labels(), "--fit", str(own), "--json") == 0
    document: Any = json.loads(capsys.readouterr().out)
    assert document["evaluation"]["is_fitted"]
    # Hashes know nothing of success: a fit that saw its own episodes would seem to.
    assert document["evaluation"]["auroc"]["value"] < 0.9
    assert yaml.safe_load(own.read_text())["fitted_for"].startswith("clip:")
    words = ["annotate", "success", "--model", "clip:hash:64", "--combination", str(own), "--limit", "1"]
    assert main([*words, "-w", str(workspace)]) == 0
    assert "not calibrated" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("000000,maybe\n", "no such label"),
        ("000000,1\n000000,0\n", "an episode has two labels"),
        ("nobody,1\n", "no label is of an episode of the workspace"),
    ],
)
def test_wrong_labels_are_one_clear_line(
    evaluate: Callable[..., int], capsys: Capture, rows: str, message: str
) -> None:
    assert evaluate(rows) == 2
    assert message in capsys.readouterr().err


def test_arguments_that_do_not_go_together_are_refused(workspace: Path, capsys: Capture) -> None:
    assert main(["annotate", "success", "--fit", "own.yaml", "-w", str(workspace)]) == 2
    assert "give --evaluate CSV too" in capsys.readouterr().err
    assert main(["annotate", "motion", "--evaluate", "labels.csv", "-w", str(workspace)]) == 2
    assert "run ares annotate success" in capsys.readouterr().err


def test_the_columns_filter(evaluate: Callable[..., int], workspace: Path, capsys: Capture) -> None:
    assert evaluate(labels(2), "--quiet") == 0
    capsys.readouterr()
    where = "success_verdict in ('success', 'failure', 'unsure') and success_probability between 0 and 1"
    with open_workspace(str(workspace), Settings()) as opened:
        assert opened.stores.tables.episodes.count(where) >= 2
        facets = {
            facet.column
            for facet in compute_facets(opened.stores, columns=["success_verdict", "success_probability"])
        }
    assert facets == {"success_verdict", "success_probability"}
