"""Pages of sorted rows equal slices of the full order, and indexes change no result."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, product
from pathlib import Path

import pyarrow as pa
import pytest

from ares.settings import Settings
from ares.store.lance import episode_snapshot as sort_orders
from ares.workspace import Workspace, open_workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes, set_annotator_columns

_NUM_EPISODES = 12_000


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = open_workspace(str(tmp_path_factory.mktemp("paging") / "ws"), Settings())
    add_synthetic_episodes(workspace, _NUM_EPISODES)
    set_annotator_columns(workspace)
    return workspace


@pytest.mark.parametrize(
    "order",
    ["dataset, key", "grade", "path_length DESC", "acceptable DESC, num_steps", "ingested, caption DESC"],
)
@pytest.mark.parametrize("where", ["", "success"])
def test_a_deep_page_is_a_slice_of_the_full_order(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, order: str, where: str
) -> None:
    table, columns = ws.stores.tables.episodes, ["episode_id", "instructions", "ingested", "grade"]
    all_rows = pa.Table.from_batches(table.scan(columns, where, order_by=order)).to_pylist()
    monkeypatch.setattr(sort_orders, "DEEP_OFFSET", 1)
    for offset in (1, len(all_rows) // 2, len(all_rows) - 5, len(all_rows) + 1):
        page = table.scan(columns, where, limit=24, offset=offset, order_by=order)
        assert [row for batch in page for row in batch.to_pylist()] == all_rows[offset : offset + 24]


def _change(workspace: Workspace, number: int) -> None:
    """Write, delete and compact in turn, by another handle than the one that reads."""
    ids = sorted(workspace.stores.tables.episodes.ids())
    table = workspace.stores.tables.connection.open_table("episodes")
    assert table is not None
    if number == 0:
        speeds = [
            (float("nan"), float("inf"), None, 0.5, 0.5, -1.0)[number % 6] for number in range(len(ids))
        ]
        workspace.stores.tables.episodes.set_values(
            pa.table({"episode_id": ids, "speed": pa.array(speeds, pa.float64())})
        )
    elif number == 1:
        table.delete("num_steps % 3 = 0")
    elif number == 2:
        add_synthetic_episodes(workspace, 260)
    else:
        workspace.stores.tables.optimize(["episodes"])
        table.delete("num_steps % 7 = 0")


def test_an_order_is_kept_until_the_table_changes(tmp_path: Path) -> None:
    reader, writer = (open_workspace(str(tmp_path / "ws"), Settings()) for _ in range(2))
    add_synthetic_episodes(writer, 200)
    orders = ["dataset, key", "speed", "speed DESC", "success, num_steps DESC", "key", "duration_seconds"]
    for number in range(4):
        _change(writer, number)
        # More orders than are cached, each read three times: sorted by Lance, then cached, then from the cache.
        for order, where in product(orders * 3, ["", "success", "num_steps > 300", "false"]):
            all_rows = writer.stores.tables.episodes.scan(["episode_id", "speed"], where, order_by=order)
            expected = [row["episode_id"] for batch in all_rows for row in batch.to_pylist()][5:29]
            page = reader.stores.tables.episodes.scan(["episode_id"], where, 24, 5, order)
            assert [row["episode_id"] for batch in page for row in batch.to_pylist()] == expected


def test_threads_that_page_at_once_get_the_same_pages(ws: Workspace) -> None:
    fresh = open_workspace(ws.path, Settings())

    def page(offset: int) -> list[str]:
        batches = fresh.stores.tables.episodes.scan(["episode_id"], "success", 10, offset, "num_steps, key")
        return [str(episode_id) for batch in batches for episode_id in batch["episode_id"].to_pylist()]

    with ThreadPoolExecutor(6) as threads:
        pages = list(threads.map(page, range(0, 300, 10)))
    all_rows = ws.stores.tables.episodes.scan(["episode_id"], "success", order_by="num_steps, key")
    ids = [episode_id for batch in all_rows for episode_id in batch["episode_id"].to_pylist()]
    assert list(chain.from_iterable(pages)) == ids[:300]


def test_an_index_changes_no_answer_also_of_rows_written_after_it(ws: Workspace, tmp_path: Path) -> None:
    table = ws.stores.tables.episodes
    indexed = {name for index in table.snapshot()._dataset.describe_indices() for name in index.field_names}
    assert {"episode_id", "dataset", "grade"} <= indexed
    rows = ws.stores.tables.episodes.read_columns(["episode_id", "grade"]).to_pylist()
    changed_rows = random.Random(0).sample(rows, 500)
    ids = [row["episode_id"] for row in changed_rows]
    grades = ["unsure" if number % 2 else None for number in range(500)]
    table.set_values(pa.table({"episode_id": ids, "grade": pa.array(grades, pa.string())}))
    current_grades = {row["episode_id"]: row["grade"] for row in rows} | dict(zip(ids, grades, strict=True))
    for where, expected in (
        ("grade = 'unsure'", "unsure"),
        ("grade IS NULL", None),
        ("grade = 'error'", "error"),
    ):
        assert table.ids(where) == {
            episode_id for episode_id, grade in current_grades.items() if grade == expected
        }
        assert table.count(where) == sum(grade == expected for grade in current_grades.values())
