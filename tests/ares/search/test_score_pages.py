"""Pages of scored episodes are those of all of them sorted, whatever the scores, the cut and the ids."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import ares
from ares.search import EpisodeScores
from ares.search.relevance import NOT_SEARCHED, SCORE_STEPS
from ares.store import EpisodeRowRuns, RowIndex
from ares.workspace import Workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes

_EPISODES = 300


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = ares.open(tmp_path_factory.mktemp("pages") / "w", create=True)
    add_synthetic_episodes(workspace, _EPISODES)
    workspace.remove(where="num_steps < 60")
    return workspace


@pytest.mark.parametrize("levels", [1, 2, 40, SCORE_STEPS])
def test_every_page_is_a_part_of_all_episodes_sorted(stored: Workspace, levels: int) -> None:
    random, snapshot = Random(levels), stored.stores.tables.episodes.snapshot()
    ids = snapshot.row_index().episode_ids.to_pylist()
    steps = [random.choice([NOT_SEARCHED, *range(0, SCORE_STEPS + 1, SCORE_STEPS // levels)]) for _ in ids]
    scores = EpisodeScores(snapshot, np.array(steps, np.int16), 0.5)
    successes = stored.stores.tables.episodes.ids("success")
    for _ in range(60):
        cut, where = random.choice([0.0, 0.5, 0.50004, 1.0, random.random()]), random.choice(["", "success"])
        passing = sorted(
            (-(step / SCORE_STEPS), id)
            for id, step in zip(ids, steps, strict=True)
            if step != NOT_SEARCHED and step / SCORE_STEPS >= cut and (not where or id in successes)
        )
        first, limit = random.randrange(_EPISODES), random.choice([1, 24, None])
        page = passing[first:] if limit is None else passing[first : first + limit]
        found, values = scores.ranked_ids(cut, where, first, limit)
        assert list(zip((-values).tolist(), found, strict=True)) == page
        assert scores.count(cut, where) == len(passing)
        bars = [min(int(-value * 50), 49) for value, _ in passing]
        if cut == 0.0:
            assert scores.histogram(where) == [bars.count(number) for number in range(50)]


def test_runs_of_another_table_are_found_by_their_ids(stored: Workspace, tmp_path: Path) -> None:
    episodes = stored.stores.tables.episodes.snapshot().row_index()
    ids = episodes.episode_ids.to_pylist()
    others = [ids[7], ids[7], "0" * 16, ids[2], ids[7]]
    assert episodes.runs_of(pa.chunked_array([others, ["none"]])).tolist() == [7, 7, -1, 2, 7, -1]
    assert episodes.runs_of(pa.chunked_array([], pa.string())).tolist() == []
    import lance

    rows = lance.write_dataset(pa.table({"episode_id": others}), tmp_path / "rows.lance")
    table = RowIndex(rows)
    runs = EpisodeRowRuns([(table, np.array([3, 0])), (episodes, np.array([5]))])
    assert table.episode_ids.to_pylist() == [ids[7], "0" * 16, ids[2], ids[7]]
    assert runs.runs_in(episodes).tolist() == [7, 7, 5]
