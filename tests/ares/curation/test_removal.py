"""Removed episodes vanish everywhere and come back as they were; sources, log and sets keep what they have."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.curation import count_removed_members, finish_purges, purge_episodes, undo
from ares.doctor import run_checks
from ares.errors import RequestError
from ares.export.base import FAILURES_FILE
from ares.registry import rankers
from ares.search import Query, compute_facets
from ares.settings import Settings
from ares.store import Moment, StagedIds, Stores
from ares.workspace import Workspace, open_workspace
from ares.workspace.summary import describe_episode
from tests.ares.curation.conftest import annotate
from tests.ingesting import ingest_paths


def rows(workspace: Workspace) -> list[dict[str, Any]]:
    """Every row of the episodes table, without the caches of versions."""
    episodes = workspace.stores.tables.episodes
    table = episodes.read_columns(sorted(episodes.columns()))
    return list(table.sort_by("episode_id").to_pylist())


def test_removed_episodes_vanish_and_come_back_as_they_were(curated: Workspace, ids: list[str]) -> None:
    stores = curated.stores
    before, segments = rows(curated), stores.tables.segments.read().to_pylist()
    curated.remove(ids[:3])
    assert [row["episode_id"] for row in rows(curated)] == ids[3:]
    assert not stores.tables.segments.search_text("zebra01x", 5)
    assert "lift zebra01x quickly" not in str(compute_facets(stores, columns=["caption"]))
    query = np.eye(12, dtype=np.float32)[1]
    assert stores.tables.vectors("m").search(query, 1)[0].episode_id == ids[1], "vectors stay where they are"
    with pytest.raises(RequestError, match="was removed"):
        describe_episode(stores, ids[0])
    assert run_checks(stores) == []
    undo(stores)
    assert rows(curated) == before
    assert stores.tables.segments.read().to_pylist() == segments
    assert run_checks(stores) == []


class VectorRanker:
    """Ranks by the vectors of the space "m", from that of the second episode."""

    query_parts = ("text",)

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def encode(self, query: Query) -> list[int]:
        """Position of the one in the vector."""
        return [int(query.text)]

    def rank(self, encoded: int, candidates: Collection[str] | None, limit: int) -> Sequence[Moment]:
        """The nearest frames."""
        vector = np.full(12, 0.1, np.float32) + np.eye(12, dtype=np.float32)[encoded]
        return self._stores.tables.vectors("m").search_episodes(vector, limit, candidates)


def test_a_search_by_vectors_leaves_removed_episodes_out_and_still_fills_its_limit(
    curated: Workspace, ids: list[str]
) -> None:
    rankers.add("second", VectorRanker)
    assert curated.search("1", by="second", limit=1)[0].episode_id == ids[1]
    # Four moments are ranked for one hit: with five removed episodes ahead of the others none would be left.
    curated.remove(ids[:5])
    assert [hit.episode_id for hit in curated.search("1", by="second", limit=1)] == [ids[5]]


def test_status_counts_removed_episodes_apart(curated: Workspace, ids: list[str]) -> None:
    curated.remove(ids[:3])
    document: Any = curated.status().to_json()
    assert (document["episodes"], document["removed"]) == (9, 3)
    assert document["annotations"]["caption"] == {"done": 9, "missing": 0, "failed": 0}


def test_a_set_keeps_removed_members_and_an_export_leaves_them_out(
    curated: Workspace, ids: list[str], tmp_path: Path
) -> None:
    curated.remove(ids[:2])
    good = curated.sets["good"]
    assert good.episodes == 5 and count_removed_members(curated.stores, [good]) == {"good@1": 2}
    report = curated.export(good, tmp_path / "export", format="parquet", quiet=True)
    assert (report.episodes, report.failed) == (3, 2)
    assert '"reason":"removed"' in (tmp_path / "export" / FAILURES_FILE).read_text()


@pytest.mark.slow
def test_ingesting_the_source_again_does_not_bring_them_back(
    curated: Workspace, ids: list[str], demo_samples: Path
) -> None:
    curated.remove(ids[:2])
    report = ingest_paths(curated.stores, [str(demo_samples / "video")], quiet=True).to_json()
    assert (report["already"], report["kept"], report["failed"]) == (12, 0, 0)
    assert "removed earlier" in str(report["warnings"]) and "'count': 2" in str(report["warnings"])
    assert curated.stores.tables.episodes.count() == 10
    assert run_checks(curated.stores) == []


@pytest.mark.slow
def test_a_rebuilt_index_shows_the_same(
    open_curated: Callable[[], Workspace], demo_samples: Path, ids: list[str]
) -> None:
    workspace = open_curated()
    workspace.remove(ids[:2])
    before = [row["episode_id"] for row in rows(workspace)]
    shutil.rmtree(Path(workspace.location) / "lance")
    rebuilt = open_curated()
    ingest_paths(rebuilt.stores, [str(demo_samples / "video")], quiet=True)
    assert [row["episode_id"] for row in rows(rebuilt)] == before
    report = undo(rebuilt.stores)
    assert report.absent == 2, "their rows were lost with the index"
    ingest_paths(rebuilt.stores, [str(demo_samples / "video")], quiet=True)
    assert [row["episode_id"] for row in rows(rebuilt)] == ids


@pytest.mark.slow
def test_the_log_applied_anew_makes_no_segments_of_removed_episodes(
    curated: Workspace, ids: list[str]
) -> None:
    from ares.store import reset_applied_sequence

    curated.remove(ids[:2])
    reset_applied_sequence(curated.stores.tables)
    curated.sync()
    assert curated.stores.tables.segments.count() == 10
    assert run_checks(curated.stores) == []


@pytest.mark.slow
def test_annotations_that_come_meanwhile_are_shown_after_the_undo(curated: Workspace, ids: list[str]) -> None:
    from dataclasses import replace

    curated.remove(ids[:1])
    (caption,) = curated.stores.annotations.find_annotations(ids[:1], ["caption"])
    newer = {"text": "push the door", "caption": "push the door"}
    curated.stores.annotations.append([replace(caption, value=newer, revision=1)])
    curated.sync()
    undo(curated.stores)
    assert rows(curated)[0]["caption"] == "push the door"
    assert run_checks(curated.stores) == []


@pytest.mark.slow
def test_a_duplicate_of_a_removed_episode_is_none_any_more(curated: Workspace, demo_samples: Path) -> None:
    from ares_ingest.base import SourceOptions

    ingest_paths(curated.stores, [str(demo_samples / "video")], SourceOptions(dataset="zz"), quiet=True)
    episodes = curated.stores.tables.episodes
    assert episodes.count("duplicate_of IS NOT NULL") == 12
    first = sorted(episodes.ids("dataset = 'video'"))[:2]
    curated.remove(first)
    assert episodes.count("duplicate_of IS NOT NULL") == 10
    undo(curated.stores)
    assert episodes.count("duplicate_of IS NOT NULL") == 12


@pytest.mark.slow
def test_a_workspace_with_mongodb_removes_brings_back_and_purges(
    tmp_path: Path, demo_samples: Path, mongo_uri: str
) -> None:
    with closing(open_workspace(str(tmp_path / "ws"), Settings(mongo_uri=mongo_uri))) as workspace:
        ingest_paths(workspace.stores, [str(demo_samples / "video")], quiet=True)
        ids = sorted(workspace.stores.tables.episodes.ids())
        annotate(workspace, ids)
        before = rows(workspace)
        workspace.remove(ids[:3])
        assert workspace.stores.tables.episodes.count() == 9
        undo(workspace.stores)
        assert rows(workspace) == before
        with StagedIds(ids[:2]) as staged:
            purge_episodes(workspace.stores, staged)
        log = workspace.stores.annotations
        documents = [str(item) for collection in log.collections() for item in log.find_documents(collection)]
        assert log.find_annotations(ids[:2]) == [] and not [text for text in documents if ids[0] in text]
        assert finish_purges(workspace.stores) == [] and run_checks(workspace.stores) == []
