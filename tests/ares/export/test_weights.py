"""Weights and progress of steps: columns, filters, segments and lists, in every format, beside what is known."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ares import open as open_workspace
from ares.annotation import Annotation
from ares.curation import CurationSet
from ares.episode import Record, Signal
from ares.errors import RequestError
from ares.export import TrimRequest
from ares.workspace import Workspace
from tests.ares.export.rlds.test_exporter import records, values
from tests.ares.export.segments import PERSON, SCORER, append, segment
from tests.ingesting import ingest_paths

MakeRecord = Callable[..., Record]
MakeSet = Callable[..., CurationSet]
COUNT = 12


def score(number: int) -> float:
    """Larger for the later episodes; the last has none."""
    return number / 10


def scored(number: int) -> Annotation:
    return Annotation(
        episode_id=f"{number:016x}",
        name="scorer",
        value={"score": score(number)},
        maker_id=SCORER.maker_id,
        subject=f"{number:016x}",
        start_seconds=0.0,
        stop_seconds=1.0,
        created="2026-01-01T00:00:00+00:00",
    )


@pytest.fixture
def ws(empty_workspace: Workspace, make_record: MakeRecord, make_set: MakeSet) -> Workspace:
    """Twelve episodes without cameras, of which the later half succeeded, with a score of all but the last."""
    made = []
    for number in range(COUNT):
        record = make_record(number, 20, cameras=(), success=number >= COUNT // 2, success_source="x")
        course = np.linspace(0, 1, 20, dtype=np.float32).reshape(-1, 1)
        extra = {"progress": Signal(course, ("p",)), "even": Signal(course * 0 + 0.5, ("p",))}
        extra["far"] = Signal(course * 3, ("p",))
        made.append(replace(record, trajectory=replace(record.trajectory, extra=extra)))
    make_set(empty_workspace, made)
    append(empty_workspace, [SCORER], [scored(number) for number in range(COUNT - 1)])
    return empty_workspace


def export(ws: Workspace, folder: Path, format: str, *weights: str, **options: Any) -> Any:
    return ws.export("made", folder, format=format, weights=weights, quiet=True, **options)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(next((folder / "data").rglob("*.parquet"))).to_pylist()
    return rows


def by_episode(rows: list[dict[str, Any]]) -> list[list[float]]:
    grouped: list[list[float]] = []
    for row in rows:
        if row["frame_index"] == 0:
            grouped.append([])
        grouped[-1].append(row["sample_weight"])
    return grouped


MEAN = sum(map(score, range(COUNT - 1))) / (COUNT - 1)
EXPECTED = [*map(score, range(COUNT - 1)), MEAN]


def test_a_score_and_a_filter_are_a_column_of_lerobot_that_is_read_back(
    ws: Workspace, tmp_path: Path
) -> None:
    report = export(ws, tmp_path / "out", "lerobot", "score", "0.5 where NOT success")
    expected = [weight / 2 if number < 6 else weight for number, weight in enumerate(EXPECTED)]
    got = by_episode(rows_of(tmp_path / "out"))
    np.testing.assert_allclose(got, [[weight] * 20 for weight in expected], rtol=1e-6)
    info = json.loads((tmp_path / "out" / "meta" / "info.json").read_text())["features"]["sample_weight"]
    assert info == {"dtype": "float32", "shape": [1], "names": ["sample_weight"]}
    stats = json.loads((tmp_path / "out" / "meta" / "stats.json").read_text())["sample_weight"]
    assert stats["mean"] == [pytest.approx(np.mean(expected))]
    again = open_workspace(tmp_path / "again", create=True)
    ingest_paths(again.stores, [str(tmp_path / "out")], quiet=True)
    read = {episode.key: episode.trajectory.extra["sample_weight"].values[0, 0] for episode in again.episodes}
    assert read["1"] == pytest.approx(0.05)
    assert report.changed[0]["reason"] == "sample_weight was added: score x 0.5 where NOT success"
    assert (report.changed[0]["episodes"], report.changed[0]["largest"]) == (12, 1.0)


def test_the_list_in_the_export_says_why_and_is_a_source_of_weights_itself(
    ws: Workspace, tmp_path: Path
) -> None:
    append(ws, [PERSON], [segment(PERSON, f"{3:016x}", (0.0, 0.25), {"text": "wait"}),
                          segment(PERSON, f"{3:016x}", (0.1, 0.5), {"text": "wait"})])  # fmt: skip
    factors = ("score", "0.1 over text = 'wait'")
    export(ws, tmp_path / "out", "lerobot", *factors)
    first = by_episode(rows_of(tmp_path / "out"))
    np.testing.assert_allclose(first[3], [0.03] * 10 + [0.3] * 10, rtol=1e-6)
    with (tmp_path / "out" / "weights.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == COUNT + 1
    assert (rows[3]["reason"], rows[4]["reason"], rows[4]["stop_seconds"]) == (
        "score 0.3", "0.1 over text = 'wait'", "0.5",
    )  # fmt: skip
    assert rows[-1]["reason"] == f"no score, mean {MEAN:g}"
    for suffix in ("csv", "json", "jsonl"):
        ws.sets.write_weights("made", factors, tmp_path / f"list.{suffix}")
        export(ws, tmp_path / suffix, "lerobot", str(tmp_path / f"list.{suffix}"))
        np.testing.assert_allclose(by_episode(rows_of(tmp_path / suffix)), first, rtol=1e-6)


def test_weights_are_cut_with_the_steps_in_every_format(ws: Workspace, tmp_path: Path) -> None:
    append(ws, [PERSON], [segment(PERSON, f"{2:016x}", (0.5, 1.0), {"text": "wait"})])
    (tmp_path / "spans.csv").write_text(f"episode_id,start_seconds,stop_seconds\n{2:016x},0.4,0.7\n")
    trim = TrimRequest(keep_spans=str(tmp_path / "spans.csv"))
    expected = [0.2] * 2 + [0.1] * 4
    for format in ("lerobot", "lerobot-v2.1", "rlds", "parquet"):
        export(ws, tmp_path / format, format, "score", "0.5 over text = 'wait'", trim=trim)
        if format == "rlds":
            (folder,) = (path.parent for path in (tmp_path / format).rglob("features.json"))
            (record,) = records(folder)
            got = values(record, "steps/sample_weight")
        elif format == "parquet":
            got = pq.read_table(tmp_path / format / "steps.parquet")["sample_weight"].to_pylist()
        else:
            got = [row["sample_weight"] for row in rows_of(tmp_path / format)]
        np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=format)


def test_calibration_is_said_where_an_outcome_is_known_and_not_made_up(ws: Workspace, tmp_path: Path) -> None:
    _, beside = ws.sets.write_weights("made", ["score"], tmp_path / "a.csv")
    assert beside["reason"] == "sample_weight beside the recorded outcome"
    # By hand: of 36 pairs the last episode, at the mean, ties with one failure.
    assert (beside["episodes"], beside["true"], beside["auc"]) == (12, 6, round(35.5 / 36, 4))
    errors = [(weight - (number >= 6)) ** 2 for number, weight in enumerate(EXPECTED)]
    assert beside["brier"] == pytest.approx(np.mean(errors), abs=1e-4)
    assert str(beside["reliability"]).startswith("0 to 0.2: mean 0.05, true 0.00 of 2; ")
    *_, circular = ws.sets.write_weights("made", ["success"], tmp_path / "b.csv")
    assert str(circular["reason"]).startswith(
        "sample_weight is uncalibrated: it is made of the recorded outcome"
    )


def test_a_loader_draws_steps_by_their_weights(ws: Workspace) -> None:
    pytest.importorskip("torch")
    dataset = ws.torch_dataset("made", weights=["1 where success", "0 where NOT success"])
    assert dataset[0]["sample_weight"].tolist() == [0.0] and dataset[239]["sample_weight"].tolist() == [1.0]
    drawn = list(dataset.make_weighted_sampler(500, seed=4))
    assert len(drawn) == 500 and min(drawn) >= 120 and len(set(drawn)) > 100
    assert drawn == list(dataset.make_weighted_sampler(500, seed=4))
    with pytest.raises(RequestError, match="the dataset has no weights"):
        ws.torch_dataset("made").make_weighted_sampler()


def test_progress_is_written_for_rabc_and_cut_with_the_steps(ws: Workspace, tmp_path: Path) -> None:
    (tmp_path / "spans.csv").write_text(f"episode_id,start_seconds,stop_seconds\n{2:016x},0.4,0.7\n")
    trim = TrimRequest(keep_spans=str(tmp_path / "spans.csv"))
    export(ws, tmp_path / "out", "lerobot", trim=trim, progress="progress")
    rows = pq.read_table(tmp_path / "out" / "sarm_progress.parquet").to_pydict()
    assert (rows["index"], rows["episode_index"], rows["frame_index"]) == ([*range(6)], [0] * 6, [*range(6)])
    np.testing.assert_allclose(rows["progress_sparse"], np.linspace(0, 1, 20)[8:14], rtol=1e-6)
    assert "sample_weight" not in rows_of(tmp_path / "out")[0]


WRONG: list[tuple[list[str], dict[str, Any], str]] = [
    (["instruction"], {}, "'instruction' is a string"),
    (["scor"], {}, "no column 'scor'; did you mean"),
    (["-1 where success"], {}, "a weight is 0 or more.*got '-1'"),
    (["0.5 where nix > 1"], {}, "nix"),
    (["0 where success", "0 where NOT success"], {}, "every weight of the set is 0"),
    ([], {"progress": "score"}, "one value of an episode, such as a grade; rabc weighs"),
    ([], {"progress": "even"}, "does not change within any episode"),
    ([], {"progress": "far"}, "1 dimension from 0 to 3"),
    ([], {"progress": "none"}, "signals of the sources are: even, far, progress"),
]


def test_what_is_no_weight_or_no_progress_is_refused_in_one_line(ws: Workspace, tmp_path: Path) -> None:
    for weights, options, says in WRONG:
        with pytest.raises(RequestError, match=says):
            export(ws, tmp_path / "out", "lerobot", *weights, **options)
    assert not (tmp_path / "out").exists()


LISTS = [
    ("episode_id,weight\n0000000000000000,1\n", "lacks an episode.*no row of episode 0000000000000001"),
    ("episode_id,weight\n0000000000000000,-1\n", "row 1: weight '-1'"),
    ("episode_id,reason\n0000000000000000,x\n", "row 1: weight None"),
    ("episode_id,weight\n0000000000000000,1\n0000000000000000,2\n", "an episode twice.*: 0000000000000000"),
]


def test_a_wrong_list_is_refused_in_one_line(ws: Workspace, tmp_path: Path) -> None:
    for text, says in LISTS:
        (tmp_path / "list.csv").write_text(text)
        with pytest.raises(RequestError, match=says):
            export(ws, tmp_path / "out", "lerobot", str(tmp_path / "list.csv"))
