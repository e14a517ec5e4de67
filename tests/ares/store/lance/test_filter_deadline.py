"""Filters under a deadline: the same error as without one, and an end in the middle of an expensive filter."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from ares.deadline import Deadline, check_deadline, limit_time
from ares.errors import FilterError, QueryTimeout
from ares.store.lance import row_index
from ares.store.lance.episode_snapshot import EpisodeCaches, EpisodeSnapshot


@pytest.fixture
def snapshot(tmp_path: Path) -> EpisodeSnapshot:
    """A table of several fragments."""
    numbers = np.arange(200_000)
    texts = [f"pick the red block {number} and put it on the shelf {number % 97} " for number in numbers]
    table = pa.table({"episode_id": numbers.astype(str), "instruction": texts, "num_steps": numbers % 1000})
    dataset = lance.write_dataset(table, tmp_path / "episodes.lance", max_rows_per_file=30_000)
    return EpisodeSnapshot(dataset, EpisodeCaches())


def test_an_expensive_filter_that_matches_nothing_ends_in_the_middle(
    snapshot: EpisodeSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without batches that come steadily it would end only with its last row."""
    condition = "regexp_like(instruction, '(a|b|c)+x{20}[0-9]+z%d')"
    where = " OR ".join(condition % number for number in range(60))
    deadline, checks = Deadline(600), []

    def check() -> None:
        checks.append(1)
        if len(checks) == 2:
            deadline.cancel()
        check_deadline()

    monkeypatch.setattr(row_index, "check_deadline", check)
    with limit_time(deadline), pytest.raises(QueryTimeout):
        snapshot.count(where)
    # The other half of the rows is read by another thread, which is one check behind at most.
    assert len(checks) <= 3
    with limit_time(Deadline(600)):
        assert snapshot.count("num_steps > 998") > 0
        with pytest.raises(FilterError, match="zero"):
            snapshot.row_mask("1 / (num_steps - num_steps) > 0")
