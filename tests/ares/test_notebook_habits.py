"""What is typed in a notebook of keys, values, vectors, functions and filters gives what it says, or a remedy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ares
from ares.errors import AresError
from ares.workspace import Workspace


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """Nine episodes of two datasets; the set "short" has the three shortest, the tag "odd" two."""
    opened = ares.open(tmp_path_factory.mktemp("habits") / "ws", create=True)
    opened.ingest(demo_samples / "video", limit=6, quiet=True)
    opened.ingest(demo_samples / "rlds", limit=3, quiet=True)
    opened.sets.create("short", opened.episodes.sort("num_steps").take(3))
    opened.tag("odd", list(opened.episodes.ids())[1:3])
    yield opened
    opened.close()


def ids(view: Any) -> list[str]:
    """The ids of a view, in its order."""
    return list(view.ids())


def per_second(episode: Any) -> float:
    """Steps per second."""
    return float(episode.num_steps / episode.duration_seconds)


def cameras_of(episodes: list[Any]) -> list[dict[str, object]]:
    """What the cameras of episodes are."""
    return [
        {"num_views": len(one.camera_names), "has_wrist": "wrist" in one.camera_names} for one in episodes
    ]


def fails_once(episode: Any) -> np.float64:
    """The last stamp, but of the longest episode."""
    if episode.num_steps > 115:
        raise ValueError("too long")
    return np.float64(episode.trajectory.timestamps[-1])


def test_what_a_workspace_gives_is_pickled_and_copied(
    ws: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert copy.deepcopy(pickle.loads(pickle.dumps(ws.episodes[1].tags))) == ["odd"]
    ws.episodes.info()
    assert f"{'num_steps':<20}" in (shown := capsys.readouterr().out) and "int64         9" in shown
    hits = ws.search("drawer", by="captions")
    things = (ws, ws.episodes[:2], ws.episodes[0], ws.sets, ws.sets["short"], ws.review, hits, ws.datasets)
    opened, view, episode, sets, short, _, hits, datasets = pickle.loads(pickle.dumps(things))
    assert list(map(len, (opened.episodes, view, short, hits[0].episode))) == [
        9,
        2,
        3,
        hits[0].episode.num_steps,
    ]
    assert np.array_equal(copy.deepcopy(episode).action, ws.episodes[0].action)
    assert (list(sets), list(datasets), asdict(episode)["key"]) == ([*ws.sets], [*ws.datasets], episode.key)


def test_values_of_a_view_are_set_again_and_taken_back(ws: Workspace) -> None:
    view = ws.episodes

    def after(change: Callable[[], object], name: str) -> list[object]:
        change()
        return list(ws.episodes.to_arrow([name])[name].to_pylist()[:3])

    assert after(lambda: view.take(2).set_values("listed", ["a", "b"]), "listed") == ["a", "b", None]
    twice = [2 * number for number in view["num_steps"][:3]]
    assert after(lambda: view.set_values("twice", lambda row: 2 * row["num_steps"]), "twice") == twice
    assert after(lambda: view.set_values("by_column", pa.chunked_array([range(9)])), "by_column") == [0, 1, 2]
    assert after(lambda: view.set_values("again", 1), "again") == [1, 1, 1]
    assert after(lambda: view.take(1).set_values("again", 7), "again") == [7, 1, 1]
    assert after(lambda: view.take(1).set_values("again", None), "again") == [None, 1, 1]
    assert after(ws.undo, "again") == [7, 1, 1] and after(ws.undo, "again") == [1, 1, 1]
    ws.undo()
    assert "again" not in ws.episodes.columns
    view.set_values("again", "a")
    assert ws.episodes.columns["again"] == "string", "a name that was undone gets another type"
    view.take(2).set_values("kept", 5)
    ws.remove(view.take(1))
    ws.undo()
    assert ws.episodes["kept"].count() == 2, "own values of what was removed come back"


def test_sets_and_tags_are_named_in_filters_of_any_kind(ws: Workspace) -> None:
    view = ws.episodes
    assert ids(view.where("NOT in_set('short')")[1:3]) == ids(view - ws.sets["short"])[1:3]
    assert len(view.where("instruction <> 'in_set(''short'')'")) == 9, "in quotes it is text"
    assert not ws.search_segments(where="in_set('short') OR tagged('odd') OR reviewed()")
    for number in (2, 5):
        ws.sets.create("grows", view.take(number))
        assert len(view.where("in_set('grows')")) == number


def test_a_function_of_the_user_annotates(ws: Workspace) -> None:
    kept = [
        ws.annotate(per_second, view, quiet=True)[0].kept
        for view in (ws.episodes.where("dataset = 'video'"), ws.episodes, ws.episodes)
    ]
    assert kept == [6, 3, 0] and len(ws.episodes.where("per_second > 0")) == 9
    assert ws.producers()["per_second"][0].settings.keys() == {"source"}
    assert ws.annotate(cameras_of, ws.episodes[::2], batch_size=4, quiet=True)[0].kept == 5
    assert [ws.episodes.columns[name] for name in ("has_wrist", "num_views")] == ["bool", "int64"]
    (report,) = ws.annotate(fails_once, columns={"fails_once": float}, quiet=True)
    assert (report.kept, report.failed) == (8, 1), "a failure costs one episode"


def test_a_fault_of_ours_is_not_called_a_wrong_argument(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise AttributeError("a fault of ARES")

    monkeypatch.setattr("ares.workspace.view_tables.plot_column", fail)
    with pytest.raises(AttributeError, match=r"^a fault of ARES$") as raised:
        ws.episodes.plot()
    assert not isinstance(raised.value, AresError)
