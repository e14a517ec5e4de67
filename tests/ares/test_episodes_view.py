"""The lazy view of episodes: what it selects, in which order, and what it shows, against plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.errors import RequestError
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("view") / "workspace"
    with open_workspace(folder, Settings()) as workspace:
        workspace.ingest(demo_samples / "rlds", demo_samples / "video", quiet=True)
        yield workspace


@pytest.fixture(scope="module")
def rows(ws: Workspace) -> list[dict[str, Any]]:
    """The episodes in the order of the sources, by plain Python."""
    columns = ["dataset", "version", "split", "key", "episode_id", "num_steps", "success"]
    table = ws.stores.tables.episodes.read_columns(columns).to_pylist()
    return sorted(table, key=lambda row: tuple(row[name] for name in columns[:4]))


def _ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["episode_id"] for row in rows]


def test_the_order_is_that_of_the_sources_everywhere(ws: Workspace, rows: list[dict[str, Any]]) -> None:
    view = ws.episodes
    assert len(view) == 24 and list(view.ids()) == _ids(rows)
    assert [episode.episode_id for episode in view] == _ids(rows)
    assert view.to_arrow(["episode_id"])["episode_id"].to_pylist() == _ids(rows)
    assert list(view.to_pandas(["episode_id"])["episode_id"]) == _ids(rows)


def test_filters_are_joined_each_in_its_own_brackets(ws: Workspace, rows: list[dict[str, Any]]) -> None:
    view = ws.episodes.where("num_steps > 40 OR num_steps < 0").where("success")
    expected = [row for row in rows if row["num_steps"] > 40 and row["success"]]
    assert expected and list(view.ids()) == _ids(expected) and len(view) == len(expected)


def test_what_follows_a_slice_applies_to_its_episodes(ws: Workspace, rows: list[dict[str, Any]]) -> None:
    first = rows[:7]
    assert list(ws.episodes.take(7).where("success").ids()) == _ids([row for row in first if row["success"]])
    by_length = sorted(first, key=lambda row: (row["num_steps"], row["episode_id"]))
    assert list(ws.episodes.take(7).sort("num_steps").ids()) == _ids(by_length)
    assert list(ws.episodes[5:].take(4)[1:].ids()) == _ids(rows[6:9])
    assert list(ws.episodes[3:9][1:3].ids()) == _ids(rows[4:6])
    assert len(ws.episodes.take(7).sort("num_steps").take(3)) == 3


def test_equal_values_keep_the_order_before(ws: Workspace, rows: list[dict[str, Any]]) -> None:
    view = ws.episodes.sort("num_steps").sort("dataset", descending=True)
    expected = sorted(rows, key=lambda row: (row["num_steps"], row["episode_id"]))
    expected = sorted(expected, key=lambda row: row["dataset"], reverse=True)
    assert list(view.ids()) == _ids(expected)


def test_a_sample_is_the_same_for_the_same_seed(ws: Workspace, rows: list[dict[str, Any]]) -> None:
    sample = list(ws.episodes.sample(6, seed=1).ids())
    assert sample == list(ws.episodes.sample(6, seed=1).ids()) != list(ws.episodes.sample(6, seed=2).ids())
    assert len(set(sample) & set(_ids(rows))) == 6
    assert sample == list(ws.episodes.sample(seed=1).take(6).ids())
    successes = set(_ids([row for row in rows if row["success"]]))
    assert set(ws.episodes.where("success").sample(5).ids()) <= successes
    assert len(ws.episodes.sample(6).where("num_steps > 0")) == 6 and len(ws.episodes.sample(99)) == 24


def test_a_view_reads_nothing_until_it_is_used_and_sees_what_is_new(
    tmp_path: Path, demo_samples: Path
) -> None:
    with open_workspace(tmp_path / "ws", Settings()) as workspace:
        view = workspace.episodes.where("num_steps > 0")
        assert len(view) == 0 and not view and list(view) == [] and "0 episodes" in repr(view)
        workspace.ingest(demo_samples / "video", limit=3, quiet=True)
        assert len(view) == 3
    with pytest.raises(RequestError, match="the workspace is closed"):
        len(view)


def test_what_an_episode_offers(ws: Workspace) -> None:
    episode = ws.episodes.where("dataset = 'video'")[0]
    frames = episode.frames("front", [1.0, 0.0])
    assert frames.shape == (2, 192, 192, 3) and frames.dtype == np.uint8
    assert np.array_equal(frames[1:], episode.frames("front", 0))
    table = episode.trajectory.to_pandas()
    assert table.columns[0] == "seconds" and len(table) == episode.num_steps
    assert [annotation.name for annotation in episode.annotations] == ["quality"]
    video = episode.video("front")
    assert Path(video).is_file() and "<video" in video._repr_html_()
    assert episode.to_json()["episode_id"] == episode.episode_id


def test_seconds_outside_the_episode_are_refused(ws: Workspace) -> None:
    episode = ws.episodes[0]
    for second in (-1.0, 10_000.0, float("nan")):
        with pytest.raises(RequestError, match=rf"{second:g} s is outside episode {episode.episode_id}"):
            episode.frames(seconds=[0.0, second])
    assert len(episode.frames(seconds=np.linspace(0, episode.duration_seconds, 3))) == 3


def test_a_notebook_shows_posters_and_names_what_it_cannot_read(ws: Workspace) -> None:
    assert ws.episodes._repr_html_().count("<img") == 8
    html = ws.episodes[0]._repr_html_()
    assert "data:image/jpeg;base64," in html and ws.episodes[0].episode_id in html


def test_a_video_that_is_gone_is_no_error_in_a_notebook(tmp_path: Path, demo_samples: Path) -> None:
    import shutil

    shutil.copytree(demo_samples / "video", tmp_path / "video")
    with open_workspace(tmp_path / "ws", Settings()) as workspace:
        workspace.ingest(tmp_path / "video", limit=2, quiet=True)
        shutil.rmtree(tmp_path / "video")
        assert "no picture" in workspace._repr_html_() and "no picture" in workspace.episodes._repr_html_()
