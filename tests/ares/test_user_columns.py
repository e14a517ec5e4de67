"""Values that people set stand beside all others: after a purge, and against annotators."""

from __future__ import annotations

from pathlib import Path

import pytest

import ares
from ares.curation import purge_episodes
from ares.errors import AresError
from ares.store import ACTION_MEMBERS, StagedIds


def test_an_annotator_refuses_a_column_that_was_set(tmp_path: Path, demo_samples: Path) -> None:
    with ares.open(tmp_path / "ws", create=True) as ws:
        ws.ingest(demo_samples / "rlds", limit=1, quiet=True)
        ws.episodes.set_values("idle_share", 0.5)
        with pytest.raises(AresError, match="motion fills a column that you have set"):
            ws.annotate("motion", quiet=True)
        ws.undo()
        assert ws.annotate("motion", quiet=True)[0].kept == 1


def test_a_purge_takes_own_values_out_of_the_log(tmp_path: Path, demo_samples: Path) -> None:
    with ares.open(tmp_path / "ws", create=True) as ws:
        ws.ingest(demo_samples / "rlds", limit=2, quiet=True)
        first, second = list(ws.episodes.ids())
        ws.episodes.set_values("label", ["a", "b"])
        with StagedIds([first]) as staged:
            purge_episodes(ws.stores, staged)
        blocks = ws.stores.annotations.find_documents(ACTION_MEMBERS)
        assert [block for _, block in blocks] == [[[second, "b"]]]
        assert ws.episodes["label"].tolist() == ["b"] and not list(ws.doctor())


def test_many_values_and_filters_by_sets_agree_with_python(tmp_path: Path, demo_samples: Path) -> None:
    """A filter that names sets is made of plain ones: each combination of flags and missing values is right."""
    with ares.open(tmp_path / "ws", create=True) as ws:
        ws.ingest(demo_samples / "video", limit=6, quiet=True)
        ids = list(ws.episodes.ids())
        score = dict(zip(ids, (0.1, 0.4, None, 0.6, None, 0.9), strict=True))
        ws.set_values("score", score)
        a, b = set(ids[:4]), set(ids[2:5])
        ws.sets.create("a", ws.episodes & a)
        ws.sets.create("b", ws.episodes & b)
        # Of a missing value a comparison is unknown, and so is what is joined with it and not decided.
        above = {id: None if value is None else value > 0.3 for id, value in score.items()}
        expected = {
            "in_set('a') AND score > 0.3": {id for id in a if above[id]},
            "in_set('a') OR score > 0.3": {id for id in ids if id in a or above[id]},
            "NOT (in_set('a') AND score > 0.3)": {id for id in ids if id not in a or above[id] is False},
            "NOT (in_set('a') OR score > 0.3)": {id for id in ids if id not in a and above[id] is False},
            "in_set('a') AND NOT in_set('b') AND NOT score > 0.3": {id for id in a - b if above[id] is False},
            "(in_set('a') OR in_set('b')) AND score IS NULL": {id for id in a | b if score[id] is None},
        }
        for where, members in expected.items():
            view = ws.episodes.where(where)
            assert set(view.ids()) == members, where
            assert len(view) == len(members), where
            assert set(view.sort("num_steps").ids()) == members, where
            assert len(ws.stores.tables.episodes.ids(where)) == len(members), where
