"""Pages of sorted rows equal slices of the full order, also while the table changes and threads page at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain, product
from pathlib import Path

import pyarrow as pa
import pytest

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes


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


@pytest.mark.slow
def test_an_order_is_kept_until_the_table_changes(tmp_path: Path) -> None:
    reader, writer = (open_workspace(str(tmp_path / "ws"), Settings()) for _ in range(2))
    add_synthetic_episodes(writer, 200)
    orders = ["dataset, key", "speed", "speed DESC", "success, num_steps DESC", "duration_seconds"]
    for number in range(4):
        _change(writer, number)
        # More orders than are cached, each read three times: sorted by Lance, then cached, then from the cache.
        for order, where in product(orders * 3, ["", "success AND num_steps > 100"]):
            all_rows = writer.stores.tables.episodes.scan(["episode_id", "speed"], where, order_by=order)
            expected = [row["episode_id"] for batch in all_rows for row in batch.to_pylist()][5:29]
            page = reader.stores.tables.episodes.scan(["episode_id"], where, 24, 5, order)
            assert [row["episode_id"] for batch in page for row in batch.to_pylist()] == expected


def test_threads_that_page_at_once_get_the_same_pages(ws: Workspace) -> None:
    add_synthetic_episodes(ws, 1_000)
    fresh = open_workspace(ws.path, Settings())

    def page(offset: int) -> list[str]:
        batches = fresh.stores.tables.episodes.scan(["episode_id"], "success", 10, offset, "num_steps, key")
        return [str(episode_id) for batch in batches for episode_id in batch["episode_id"].to_pylist()]

    with ThreadPoolExecutor(6) as threads:
        pages = list(threads.map(page, range(0, 300, 10)))
    all_rows = ws.stores.tables.episodes.scan(["episode_id"], "success", order_by="num_steps, key")
    ids = [episode_id for batch in all_rows for episode_id in batch["episode_id"].to_pylist()]
    assert list(chain.from_iterable(pages)) == ids[:300] and len(ids) > 300
