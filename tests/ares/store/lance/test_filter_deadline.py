"""Filters under a deadline: the same rows as without one, and an end in the middle of an expensive filter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from ares.deadline import Deadline, check_deadline, limit_time
from ares.errors import FilterError, QueryTimeout
from ares.store.lance import row_index
from ares.store.lance.episode_snapshot import EpisodeCaches, EpisodeSnapshot

_ROWS = 200_000
_FILTERS = (
    "num_steps > 500",
    "NOT num_steps > 500",
    "num_steps IS NULL",
    "instruction LIKE '%7 %'",
    "num_steps > 10 AND (success OR instruction LIKE '%42%')",
    "(num_steps > 10) AND (success = true)",
    "success IS NOT TRUE",
)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EpisodeSnapshot]:
    """A table of several fragments with deleted rows and missing values."""
    import lance

    numbers = np.arange(_ROWS)
    table = pa.table(
        {
            "episode_id": [f"{number:016x}" for number in numbers],
            "instruction": [
                f"pick the red block {number} and put it on the shelf {number % 97} " for number in numbers
            ],
            "num_steps": pa.array(numbers % 1000, pa.int64(), mask=numbers % 11 == 0),
            "success": pa.array(numbers % 2 == 0, mask=numbers % 7 == 0),
        }
    )
    path = str(tmp_path_factory.mktemp("filters") / "episodes.lance")
    dataset = lance.write_dataset(table, path, max_rows_per_file=30_000)
    dataset.delete("num_steps = 3")
    yield EpisodeSnapshot(lance.dataset(path), EpisodeCaches())


@pytest.mark.parametrize("where", _FILTERS)
def test_a_deadline_changes_no_result(snapshot: EpisodeSnapshot, where: str) -> None:
    expected = snapshot.count(where)
    with limit_time(Deadline(600)):
        fresh = EpisodeSnapshot(snapshot._dataset, EpisodeCaches())
        assert fresh.count(where) == expected
        mask = fresh.row_mask(where)
    assert (mask == EpisodeSnapshot(snapshot._dataset, EpisodeCaches()).row_mask(where)).all()
    assert 0 < expected < _ROWS


def test_a_filter_that_cannot_be_evaluated_is_the_same_error(snapshot: EpisodeSnapshot) -> None:
    where = "1 / (num_steps - num_steps) > 0"
    for deadline in (None, Deadline(600)):
        with limit_time(deadline), pytest.raises(FilterError, match="zero"):
            EpisodeSnapshot(snapshot._dataset, EpisodeCaches()).row_mask(where)


def test_an_expensive_filter_that_matches_nothing_ends_in_the_middle(
    snapshot: EpisodeSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without batches that come steadily it would end only with its last row."""
    condition = "regexp_like(instruction, '(a|b|c)+x{20}[0-9]+z%d')"
    where = " OR ".join(condition % number for number in range(60))
    fresh = EpisodeSnapshot(snapshot._dataset, EpisodeCaches())
    deadline, checks = Deadline(600), []

    def check() -> None:
        checks.append(1)
        if len(checks) == 2:
            deadline.cancel()
        check_deadline()

    monkeypatch.setattr(row_index, "check_deadline", check)
    with limit_time(deadline), pytest.raises(QueryTimeout):
        fresh.count(where)
    # The other half of the rows is read by another thread, which is one check behind at most.
    assert len(checks) <= 3
    with limit_time(Deadline(600)):
        assert fresh.count("num_steps > 998") > 0
