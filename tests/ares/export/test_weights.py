"""Weights of steps: of a column or a table, in every format."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares import open as open_workspace
from ares.errors import RequestError
from ares.workspace import Workspace
from tests.ares.export.made_episodes import make_record, make_set, read_info, read_json, read_rows
from tests.ares.export.rlds.test_exporter import records, values
from tests.ares.export.segments import PERSON, SCORER, append, segment
from tests.ingesting import ingest_paths

COUNT = 12


def score(number: int) -> float:
    """Larger for the later episodes; the last has none."""
    return number / 10


@pytest.fixture
def ws(ws: Workspace) -> Workspace:
    """Twelve episodes without cameras, of which the later half succeeded, with a score of all but the last."""
    made = []
    for number in range(COUNT):
        record = make_record(number, 20, cameras=(), success=number >= COUNT // 2, success_source="x")
        made.append(record)
    make_set(ws, made)
    append(
        ws,
        [SCORER],
        [
            segment(SCORER, f"{number:016x}", (0.0, 1.0), {"score": score(number)})
            for number in range(COUNT - 1)
        ],
    )
    return ws


def export(ws: Workspace, folder: Path, format: str, weights: str = "", **options: Any) -> Any:
    return ws.export("made", folder, format=format, weights=weights, quiet=True, **options)


def by_episode(rows: list[dict[str, Any]]) -> list[list[float]]:
    grouped: list[list[float]] = []
    for row in rows:
        if row["frame_index"] == 0:
            grouped.append([])
        grouped[-1].append(row["sample_weight"])
    return grouped


MEAN = sum(map(score, range(COUNT - 1))) / (COUNT - 1)
EXPECTED = [*map(score, range(COUNT - 1)), MEAN]


def test_a_score_is_a_column_of_lerobot_that_is_read_back(ws: Workspace, tmp_path: Path) -> None:
    report = export(ws, tmp_path / "out", "lerobot", "score")
    got = by_episode(read_rows(tmp_path / "out"))
    np.testing.assert_allclose(got, [[weight] * 20 for weight in EXPECTED], rtol=1e-6)
    info = read_info(tmp_path / "out")["features"]["sample_weight"]
    assert info == {"dtype": "float32", "shape": [1], "names": None}
    stats = read_json(tmp_path / "out" / "meta" / "stats.json")["sample_weight"]
    assert stats["mean"] == [pytest.approx(np.mean(EXPECTED))]
    again = open_workspace(tmp_path / "again", create=True)
    ingest_paths(again.stores, [str(tmp_path / "out")], quiet=True)
    read = {episode.key: episode.trajectory.extra["sample_weight"].values[0, 0] for episode in again.episodes}
    assert read["1"] == pytest.approx(0.1)
    assert report.changed[0]["reason"] == "sample_weight was added: score"
    assert (report.changed[0]["episodes"], report.changed[0]["largest"]) == (12, 1.0)


def write_table(path: Path, rows: list[dict[str, Any]]) -> str:
    """Write a table in the form that its name says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return str(path)


def weight_rows() -> list[dict[str, Any]]:
    return [{"episode_id": f"{number:016x}", "weight": number / 10} for number in range(COUNT)]


def test_weights_of_episodes_that_are_not_exported_are_counted(ws: Workspace, tmp_path: Path) -> None:
    rows = [*weight_rows(), {**weight_rows()[0], "episode_id": "f" * 16}]
    report = export(ws, tmp_path / "out", "lerobot", write_table(tmp_path / "mine.csv", rows))
    assert "weights of 1 episode outside the export, such as ffffffffffffffff" in report.left_out


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_table_weighs_episodes_and_the_list_of_an_export_is_one(
    ws: Workspace, tmp_path: Path, suffix: str
) -> None:
    table = write_table(tmp_path / f"mine.{suffix}", weight_rows())
    export(ws, tmp_path / "out", "lerobot", table)
    first = by_episode(read_rows(tmp_path / "out"))
    np.testing.assert_allclose(first[3], [0.3] * 20, rtol=1e-6)
    with (tmp_path / "out" / "weights.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == COUNT and rows[4]["reason"] == f"mine.{suffix}"
    export(ws, tmp_path / "again", "lerobot", str(tmp_path / "out" / "weights.csv"))
    np.testing.assert_allclose(by_episode(read_rows(tmp_path / "again")), first, rtol=1e-6)


def test_an_episode_without_a_score_has_the_mean_and_the_list_says_so(ws: Workspace, tmp_path: Path) -> None:
    export(ws, tmp_path / "out", "parquet", "score")
    with (tmp_path / "out" / "weights.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [rows[3]["reason"], rows[-1]["reason"]] == ["score 0.3", f"no score, mean {MEAN:g}"]


@pytest.mark.slow
def test_weights_are_cut_with_the_steps_in_every_format(ws: Workspace, tmp_path: Path) -> None:
    table = write_table(tmp_path / "mine.csv", weight_rows())
    append(ws, [PERSON], [segment(PERSON, f"{2:016x}", (0.4, 0.7), {"text": "part"})])
    ws.sets.create_spans("parts", where="text = 'part'")
    expected = [0.2] * 6
    for format in ("lerobot", "lerobot-v2.1", "rlds", "parquet"):
        ws.export("parts", tmp_path / format, format=format, weights=table, quiet=True)
        if format == "rlds":
            (folder,) = (path.parent for path in (tmp_path / format).rglob("features.json"))
            (record,) = records(folder)
            got = values(record, "steps/sample_weight")
        elif format == "parquet":
            got = pq.read_table(tmp_path / format / "steps.parquet")["sample_weight"].to_pylist()
        else:
            got = [row["sample_weight"] for row in read_rows(tmp_path / format)]
        np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=format)


def test_a_loader_draws_steps_by_their_weights(ws: Workspace) -> None:
    pytest.importorskip("torch")
    dataset = ws.torch_dataset("made", weights="success")
    assert dataset[0]["sample_weight"].tolist() == [0.0] and dataset[239]["sample_weight"].tolist() == [1.0]
    drawn = list(dataset.make_weighted_sampler(500, seed=4))
    assert len(drawn) == 500 and min(drawn) >= 120 and len(set(drawn)) > 100
    assert drawn == list(dataset.make_weighted_sampler(500, seed=4))
    with pytest.raises(RequestError, match="the dataset has no weights"):
        ws.torch_dataset("made").make_weighted_sampler()


WRONG: list[tuple[Any, str]] = [
    ("instruction", "'instruction' is a string"),
    ("scor", "no column 'scor'; did you mean"),
    ("0.2 where NOT acceptable", "a weight is a column of numbers, or a CSV, JSONL or Parquet file"),
    (["score", "success"], "weights are one column or one table: got .*multiply several in a table"),
    ("nothing", "every weight of the set is 0: by nothing"),
    (
        "negative",
        r"a weight is 0 or more: episode 0{15}\w: negative is -1; rescale it in a table",
    ),
]


@pytest.mark.slow
def test_what_is_no_weight_is_refused_in_one_line(ws: Workspace, tmp_path: Path) -> None:
    for name, value in (("nothing", 0.0), ("negative", -1.0)):
        ws.set_values(name, {f"{number:016x}": value for number in range(COUNT)})
    for weights, says in WRONG:
        with pytest.raises(RequestError, match=says):
            export(ws, tmp_path / "out", "lerobot", weights)
    assert not (tmp_path / "out").exists()


LISTS = [
    ("episode_id,weight\n0000000000000000,1\n", "lacks an episode.*no row of episode 0000000000000001"),
    ("episode_id,weight\n0000000000000000,-1\n", "line 2: weight is '-1'; "),
    (
        "episode_id,reason\n0000000000000000,x\n",
        "needed are episode_id, weight; found are episode_id, reason",
    ),
    ("episode_id,weight\n0000000000000000,1\n0000000000000000,2\n", "an episode twice.*: 0000000000000000"),
    (
        "episode_id,weight,start_seconds\n0000000000000000,1,0.5\n",
        "line 2: .*a weight is of a whole episode, not from start_seconds on",
    ),
]


@pytest.mark.slow
def test_a_wrong_list_is_refused_in_one_line(ws: Workspace, tmp_path: Path) -> None:
    for text, says in LISTS:
        (tmp_path / "list.csv").write_text(text)
        with pytest.raises(RequestError, match=says):
            export(ws, tmp_path / "out", "lerobot", str(tmp_path / "list.csv"))
