"""Paging: deep stretches of an ordering are those that the whole ordering has there, and indexes change no answer."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, product
from pathlib import Path

import pyarrow as pa
import pytest

from ares.settings import Settings
from ares.store import paging
from ares.workspace import Workspace, open_workspace
from benchmarks.grow import annotate, grow

_MANY = 12_000


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = open_workspace(str(tmp_path_factory.mktemp("paging") / "ws"), Settings())
    grow(made, _MANY)
    annotate(made)
    return made


@pytest.mark.parametrize(
    "order",
    ["dataset, key", "grade", "path_length DESC", "acceptable DESC, num_steps", "ingested, caption DESC"],
)
@pytest.mark.parametrize("where", ["", "success"])
def test_a_deep_stretch_is_that_of_the_whole_order(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, order: str, where: str
) -> None:
    table, columns = ws.tables.episodes, ["episode_id", "instructions", "ingested", "grade"]
    whole = pa.Table.from_batches(table.scan(columns, where, order_by=order)).to_pylist()
    monkeypatch.setattr(paging, "DEEP", 1)
    for offset in (1, len(whole) // 2, len(whole) - 5, len(whole) + 1):
        found = table.scan(columns, where, limit=24, offset=offset, order_by=order)
        assert [row for batch in found for row in batch.to_pylist()] == whole[offset : offset + 24]


def _change(made: Workspace, number: int) -> None:
    """Write, delete and compact in turn, by another handle than the one that reads."""
    ids = sorted(made.tables.episodes.ids())
    table = made.tables.find("episodes")
    assert table is not None
    if number == 0:
        speeds = [(float("nan"), float("inf"), None, 0.5, 0.5, -1.0)[place % 6] for place in range(len(ids))]
        made.tables.episodes.set_values(
            pa.table({"episode_id": ids, "speed": pa.array(speeds, pa.float64())})
        )
    elif number == 1:
        table.delete("num_steps % 3 = 0")
    elif number == 2:
        grow(made, 260)
    else:
        made.tables.optimize(["episodes"])
        table.delete("num_steps % 7 = 0")


def test_an_order_is_kept_until_the_table_changes(tmp_path: Path) -> None:
    reader, writer = (open_workspace(str(tmp_path / "ws"), Settings()) for _ in range(2))
    grow(writer, 200)
    orders = ["dataset, key", "speed", "speed DESC", "success, num_steps DESC", "key", "duration_seconds"]
    for number in range(4):
        _change(writer, number)
        # More orders than are kept, each asked for three times: found by Lance, then kept, then from what was kept.
        for order, where in product(orders * 3, ["", "success", "num_steps > 300", "false"]):
            whole = writer.tables.episodes.scan(["episode_id", "speed"], where, order_by=order)
            wanted = [row["episode_id"] for batch in whole for row in batch.to_pylist()][5:29]
            found = reader.tables.episodes.scan(["episode_id"], where, 24, 5, order)
            assert [row["episode_id"] for batch in found for row in batch.to_pylist()] == wanted


def test_threads_that_page_at_once_get_the_same_pages(ws: Workspace) -> None:
    fresh = open_workspace(ws.path, Settings())

    def page(offset: int) -> list[str]:
        found = fresh.tables.episodes.scan(["episode_id"], "success", 10, offset, "num_steps, key")
        return [str(one) for batch in found for one in batch["episode_id"].to_pylist()]

    with ThreadPoolExecutor(6) as threads:
        pages = list(threads.map(page, range(0, 300, 10)))
    whole = ws.tables.episodes.scan(["episode_id"], "success", order_by="num_steps, key")
    ids = [one for batch in whole for one in batch["episode_id"].to_pylist()]
    assert list(chain.from_iterable(pages)) == ids[:300]


def test_an_index_changes_no_answer_also_of_rows_written_after_it(ws: Workspace, tmp_path: Path) -> None:
    table = ws.tables.episodes
    indexed = {name for index in table._dataset().describe_indices() for name in index.field_names}
    assert {"episode_id", "dataset", "grade"} <= indexed
    rows = ws.frame(["episode_id", "grade"]).to_pylist()
    changed = random.Random(0).sample(rows, 500)
    ids = [row["episode_id"] for row in changed]
    grades = ["unsure" if number % 2 else None for number in range(500)]
    table.set_values(pa.table({"episode_id": ids, "grade": pa.array(grades, pa.string())}))
    now = {row["episode_id"]: row["grade"] for row in rows} | dict(zip(ids, grades, strict=True))
    for where, wanted in (
        ("grade = 'unsure'", "unsure"),
        ("grade IS NULL", None),
        ("grade = 'error'", "error"),
    ):
        assert table.ids(where) == {each for each, grade in now.items() if grade == wanted}
        assert table.count(where) == sum(grade == wanted for grade in now.values())
