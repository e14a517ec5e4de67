"""What users of pandas, Hugging Face, FiftyOne and LeRobot type in a notebook: each gives what it says, or an error
of ARES with a remedy."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ares
from ares import registry
from ares.episode import Signal
from ares.errors import AresError
from ares.workspace import Workspace
from tests.thinning import some_by_day

Try = Callable[[Workspace], object]


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


class Stream:
    """A frame, or a column, of a library that ARES does not know: it has the Arrow C stream interface, as Polars."""

    def __init__(self, data: pa.Table | pa.ChunkedArray) -> None:
        self._data = data
        if isinstance(data, pa.ChunkedArray):
            self.dtype = data.type

    def __len__(self) -> int:
        return len(self._data)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._data.__arrow_c_stream__(requested_schema)


def frame_of(view: Any, **columns: Any) -> Stream:
    """A frame with the ids of a view, its texts as views, as those of Polars are."""
    texts = pa.array(list(view.ids()), pa.string()).cast(pa.string_view())
    return Stream(pa.table({"episode_id": texts, **columns}))


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


def returns_an_object(episode: Any) -> object:
    """What no column can have."""
    return object()


def num_steps(episode: Any) -> int:
    """The name of a column of the source."""
    return 1


# What stands in brackets, and the numbers of the nine episodes that it selects.
KEYS: dict[str, tuple[Try, list[int]]] = {
    "a step": (lambda ws: slice(None, None, 2), [0, 2, 4, 6, 8]),
    "backwards": (lambda ws: slice(None, None, -1), [8, 7, 6, 5, 4, 3, 2, 1, 0]),
    "numbers": (lambda ws: [4, 0], [4, 0]),
    "numbers of NumPy": (lambda ws: np.array([4, -1]), [4, 8]),
    "ids": (lambda ws: ids(ws.episodes)[3:5], [3, 4]),
    "a mask of NumPy": (lambda ws: np.arange(9) % 2 == 0, [0, 2, 4, 6, 8]),
    "a list of flags": (lambda ws: [True] + [False] * 8, [0]),
    "masks of columns": (
        lambda ws: (ws.episodes["dataset"] == "video") & (ws.episodes["episode_id"] == ids(ws.episodes)[7]),
        [7],
    ),
    "a mask of Arrow": (lambda ws: pc.equal(ws.episodes.to_arrow()["dataset"], "video"), [3, 4, 5, 6, 7, 8]),
    "a mask of a frame": (lambda ws: ws.episodes.to_pandas()["dataset"].isin(["video"]), [3, 4, 5, 6, 7, 8]),
}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_numpy_pandas_or_arrow_selects_as_there(ws: Workspace, key: str) -> None:
    view, (make, numbers) = ws.episodes, KEYS[key]
    assert ids(view[make(ws)]) == [ids(view)[number] for number in numbers]


def test_views_and_sets_are_combined_by_the_operators_of_sets(ws: Workspace) -> None:
    view, short = ws.episodes, ws.sets["short"]
    all_ids = ids(view)
    assert ids(view.where("num_steps > 50") & view.where("dataset = 'video'")) == ids(
        view.where("num_steps > 50 AND dataset = 'video'")
    )
    assert set(ids(view.take(2) | view[4:6])) == {all_ids[number] for number in (0, 1, 4, 5)}
    assert ids(view - view.take(7)) == all_ids[7:]
    assert (len(view - short), len(short.members | all_ids), len(short.members - short)) == (6, 9, 0)
    joined = (view.take(3) | view[5:]).where("dataset = 'video'")
    assert ids(joined) == all_ids[5:]
    shortest = min(view.take(5), key=lambda episode: episode.num_steps)
    assert ids((view & view.take(5)).sort("num_steps"))[0] == shortest.episode_id
    assert (len(short), view.sort("num_steps")[0] in short, 5 in view, len({view[0], view[0]})) == (
        3,
        True,
        False,
        1,
    )


def test_columns_groups_plots_and_sql_are_those_of_pandas(ws: Workspace) -> None:
    view = ws.episodes
    assert view["num_steps"].tolist() == view.to_arrow(["num_steps"])["num_steps"].to_pylist()
    assert list(view[["dataset", "num_steps"]].columns) == ["dataset", "num_steps"]
    assert view["dataset"].value_counts().to_dict()["video"] == len(view.groupby("dataset")["video"]) == 6
    grouped = view.sql("SELECT dataset, count(*) AS n FROM episodes GROUP BY 1 ORDER BY n")
    assert grouped["n"].tolist() == [3, 6] and len(view.sql("FROM episodes")) == 9
    videos = view.where("dataset = 'video'")
    longest = max(episode.num_steps for episode in videos)
    assert int(videos.sql("select max(num_steps) m from episodes")["m"][0]) == longest
    assert view.plot("num_steps", color="dataset").to_dict()["encoding"]["color"]["field"] == "dataset"
    assert "facet" in view.where("dataset != 'video'")[0].plot().to_dict()
    signal = Signal(np.ones((3, 2), np.float32), ("a", "b"))
    assert (np.asarray(signal).shape, len(signal)) == ((3, 2), 3)


def test_a_workspace_a_view_and_an_episode_are_pickled(ws: Workspace) -> None:
    view = ws.episodes.where("num_steps > 50")
    opened, again, episode = pickle.loads(pickle.dumps((ws, view, ws.episodes[0])))
    assert (len(opened.episodes), ids(again), episode.episode_id) == (9, ids(view), ids(ws.episodes)[0])


# What is set as a column of the nine episodes, and the column that it becomes.
VALUES: dict[str, tuple[Try, Try]] = {
    "a dict": (lambda ws: dict(zip(ids(ws.episodes), range(9), strict=True)), lambda ws: [*range(9)]),
    "a Series": (
        lambda ws: ws.episodes.to_pandas().set_index("episode_id")["num_steps"],
        lambda ws: ws.episodes["num_steps"].tolist(),
    ),
    "a frame": (
        lambda ws: ws.episodes.to_pandas(["episode_id", "success"]),
        lambda ws: ws.episodes.to_arrow(["success"])["success"].to_pylist(),
    ),
    "Arrow": (
        lambda ws: ws.episodes.to_arrow(["episode_id", "dataset"]),
        lambda ws: ws.episodes["dataset"].tolist(),
    ),
    "a frame of any library": (
        lambda ws: frame_of(ws.episodes, a=pa.array(range(9))),
        lambda ws: [*range(9)],
    ),
}


@pytest.mark.parametrize("given", VALUES)
def test_values_of_any_form_become_a_column(ws: Workspace, given: str) -> None:
    values, expected = VALUES[given]
    name = f"of_{given.lower().replace(' ', '_')}"
    ws.set_values(name, values(ws))
    assert ws.episodes.to_arrow([name])[name].to_pylist() == expected(ws)


def test_values_of_a_view_are_set_again_and_taken_back(ws: Workspace) -> None:
    view = ws.episodes

    def after(change: Callable[[], object], name: str) -> list[object]:
        change()
        return list(ws.episodes.to_arrow([name])[name].to_pylist()[:3])

    assert after(lambda: view.take(2).set_values("listed", ["a", "b"]), "listed") == ["a", "b", None]
    twice = [2 * number for number in view["num_steps"][:3]]
    assert after(lambda: view.set_values("twice", lambda row: 2 * row["num_steps"]), "twice") == twice
    assert after(lambda: view.set_values("by_column", Stream(pa.chunked_array([range(9)]))), "by_column") == [
        0,
        1,
        2,
    ]
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
    counts = view.sql(
        "SELECT count(*) FILTER (in_set('short')) AS a, count(*) FILTER (tagged('odd')) AS b,"
        " count(*) FILTER (NOT reviewed()) AS c FROM episodes"
    )
    assert counts.iloc[0].tolist() == [3, 2, 9]
    assert not ws.search_segments(where="in_set('short') OR tagged('odd') OR reviewed()")
    (facet,) = ws.facets("in_set('short')", columns=["dataset"])
    assert sum(count for _, count in facet.counts) == 3
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


def test_vectors_of_any_form_are_searched(ws: Workspace) -> None:
    view, vectors = ws.episodes, np.eye(9) + 0.1
    assert ws.add_vectors("my_model", (ids(view), vectors)) == 9
    assert ws.add_vectors("my_model", {ids(view)[0]: vectors[1]}) == 1
    assert view.similar(view[0], 1, "my_model")[0].episode_id == ids(view)[1]
    assert len(view.where("dataset != 'video'").similar(view[0], space="my_model")) == 2
    (hit,) = ws.search(like=ids(view)[1], by="frames", space="my_model", limit=1)
    assert hit.episode_id == ids(view)[0]
    assert ws.add_vectors("by_lists", frame_of(view, vector=pa.array(vectors.tolist()))) == 9
    assert ws.add_vectors("by_columns", frame_of(view, a=pa.array([1.0] * 9), b=pa.array([0.5] * 9))) == 9
    assert pa.table(view).equals(view.to_arrow()), "and a view is such a frame"


# Wrong calls, and a word of the remedy.
REFUSED: dict[str, tuple[Try, str]] = {
    "open by bytes": (lambda ws: ares.open(os.fsencode(ws.path)), "give os.fsdecode"),  # type: ignore[arg-type]
    "ws[0]": (lambda ws: ws[0], "use ws.episodes"),
    "list(ws)": (lambda ws: list(ws), "use ws.episodes"),  # type: ignore[call-overload]
    "ws misspelled": (lambda ws: ws.episode, "episodes"),  # type: ignore[attr-defined]
    "unknown column of sql": (lambda ws: ws.episodes.sql("SELECT nothing FROM episodes"), "nothing"),
    "unknown table of sql": (lambda ws: ws.episodes.sql("SELECT * FROM others"), "episodes"),
    "sql that writes": (lambda ws: ws.episodes.sql("DROP TABLE episodes"), "SELECT"),
    "sql that reads a file": (
        lambda ws: ws.episodes.sql("SELECT * FROM read_csv('/etc/passwd')"),
        "cannot be run",
    ),
    "where of a function": (lambda ws: ws.episodes.where(lambda row: True), "SQL"),  # type: ignore[arg-type]
    "where of nothing": (lambda ws: ws.episodes.where(), "filter"),  # type: ignore[call-arg]
    "sample with a wrong seed": (lambda ws: ws.episodes.sample(2, seed="a"), "seed"),  # type: ignore[arg-type]
    "sample with random_state": (lambda ws: ws.episodes.sample(2, random_state=1), "seed"),  # type: ignore[call-arg]
    "view[[99]]": (lambda ws: ws.episodes[[99]], "the view has 9"),
    "view['num_stps']": (lambda ws: ws.episodes["num_stps"], "did you mean 'num_steps'"),
    "a column to come": (
        lambda ws: ws.episodes.where("caption = 'a'").take(5),
        "`ares annotate caption` makes it",
    ),
    "view[1.5]": (lambda ws: ws.episodes[1.5], "list of episode ids"),
    "short mask": (lambda ws: ws.episodes[[True, False]], "9 episodes"),
    "set_values of another type": (
        lambda ws: (ws.episodes.set_values("typed", 1.5), ws.episodes.set_values("typed", "a")),
        "numbers",
    ),
    "set_values of a float in whole numbers": (
        lambda ws: (ws.episodes.set_values("whole", 1), ws.episodes.set_values("whole", 1.5)),
        "whole numbers",
    ),
    "set_values of a column of the source": (
        lambda ws: ws.episodes.set_values("num_steps", 1),
        "another name",
    ),
    "set_values of a wrong name": (lambda ws: ws.episodes.set_values("My score", 1), "small letters"),
    "set_values of an unknown id": (lambda ws: ws.set_values("new", {"nothing": 1}), "no episode"),
    "set_values of a number": (lambda ws: ws.set_values("new", 5), "{id: 0.5}"),
    "set_values of lists": (lambda ws: ws.set_values("new", {ids(ws.episodes)[0]: [1]}), "numbers or texts"),
    "set_values of infinity": (lambda ws: ws.episodes.set_values("new", float("inf")), "finite"),
    "set_values of a short list": (lambda ws: ws.episodes.set_values("new", [1, 2]), "9 episodes"),
    "set_values by numbers of rows": (
        lambda ws: ws.set_values("new", ws.episodes["num_steps"]),
        "set_index('episode_id')",
    ),
    "set_values of an id twice": (
        lambda ws: ws.set_values("new", ws.episodes.to_pandas(["episode_id", "num_steps"]).iloc[[0, 0]]),
        "repeated",
    ),
    "in_set of no set": (lambda ws: ws.episodes.where("in_set('shrt')"), "did you mean 'short'"),
    "in_set of a column": (lambda ws: ws.episodes.where("in_set(dataset)"), "in quotes"),
    "in_set of nothing in a filter": (lambda ws: ws.episodes.where("in_set()"), "takes name"),
    "reviewed of something": (lambda ws: ws.episodes.where("reviewed(1)"), "takes nothing"),
    "five sets in a filter": (
        lambda ws: (
            [ws.sets.create(f"s{n}", ws.episodes.take(2)) for n in range(5)],
            len(ws.episodes.where(" OR ".join(f"in_set('s{n}')" for n in range(5)))),
        ),
        "at most 4",
    ),
    "annotate by a lambda": (lambda ws: ws.annotate(lambda episode: 1, quiet=True), "def my_score"),
    "annotate into a column of the source": (lambda ws: ws.annotate(num_steps, quiet=True), "another name"),
    "annotate by what returns an object": (
        lambda ws: ws.annotate(returns_an_object, quiet=True),
        "the types are",
    ),
    "annotate on a cluster": (lambda ws: ws.annotate(per_second, engine="ray", quiet=True), "leave it out"),
    "add_vectors of another length": (
        lambda ws: (
            ws.add_vectors("short_one", {ids(ws.episodes)[0]: [1, 2]}),
            ws.add_vectors("short_one", {ids(ws.episodes)[1]: [1, 2, 3]}),
        ),
        "has width 2",
    ),
    "remove_vectors of none": (lambda ws: ws.remove_vectors("none"), "no vectors of your own 'none'"),
    "values of no frame": (lambda ws: ws.set_values("v", Stream(pa.table({"a": [1]}))), "column episode_id"),
    "add_vectors of zeros": (lambda ws: ws.add_vectors("v", {ids(ws.episodes)[0]: [0, 0]}), "not 0"),
    "add_vectors of a wrong name": (lambda ws: ws.add_vectors("v v", {ids(ws.episodes)[0]: [1]}), "letters"),
    "add_vectors of unequal lengths": (
        lambda ws: ws.add_vectors("v", dict(zip(ids(ws.episodes), ([1], [1, 2]), strict=False))),
        "same number",
    ),
    "add_vectors of a number": (lambda ws: ws.add_vectors("v", 5), "mapping by id"),
    "similar in no space": (lambda ws: ws.episodes.similar(ws.episodes[0], space="none"), "there are"),
    "words in a space of one's own": (
        lambda ws: (
            ws.add_vectors("wordless", {ids(ws.episodes)[0]: [1, 2]}),
            ws.search("a drawer", by="frames", space="wordless"),
        ),
        "like='EPISODE_ID'",
    ),
}


@pytest.mark.parametrize("typed", some_by_day(REFUSED))
def test_what_cannot_be_is_refused_with_a_remedy(ws: Workspace, typed: str) -> None:
    call, words = REFUSED[typed]
    with pytest.raises(AresError) as refused:
        call(ws)
    assert words in str(refused.value) and str(refused.value).strip()
    assert "\n" not in str(refused.value)


def test_a_fault_of_ours_is_not_called_a_wrong_argument(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise AttributeError("a fault of ARES")

    monkeypatch.setattr("ares.workspace.view_tables.plot_column", fail)
    with pytest.raises(AttributeError, match=r"^a fault of ARES$") as raised:
        ws.episodes.plot()
    assert not isinstance(raised.value, AresError)


@pytest.mark.slow
def test_what_is_advised_for_a_name_of_another_library_can_be_typed(ws: Workspace, tmp_path: Path) -> None:
    """Of each name that an owner lacks, every expression of the advice."""
    view = ws.episodes
    ws.tag("name", view.take(2))
    owners = {"ws": ws, "the_set": ws.sets.create("name", view), "view": view}
    libraries = {"polars": SimpleNamespace(DataFrame=pa.table), "datasets": SimpleNamespace(Dataset=pa.table)}
    given = {**owners, **libraries, "other": view.take(1), "name": "name", "values": [1.0] * len(view)}
    methods = {name: getattr(view, name) for name in dir(view) if not name.startswith("_")}
    tried = set[tuple[bool, str]]()
    for kind, name in product(owners, registry._OTHER_NAMES):
        if hasattr(owners[kind], name):
            continue
        with pytest.raises(AresError) as refused:
            getattr(owners[kind], name)
        assert refused.value.detail.startswith("use ")
        advice = refused.value.detail.removeprefix("use ").partition(" and the like")[0]
        for expression in advice.split(" or "):
            if (key := (kind == "view", expression)) not in tried:
                tried.add(key)
                ways = methods if kind == "view" else {}
                # Raises where it cannot be typed.
                eval(expression, {**ways, **given, "folder": tmp_path / f"{len(tried)}"})


@pytest.mark.parametrize("kind", ["ws", "view", "set", "episode", "sets"])
def test_a_name_of_another_library_works_or_is_refused_with_what_does_it(ws: Workspace, kind: str) -> None:
    episode = ws.episodes[0]
    things = {"ws": ws, "view": ws.episodes, "set": ws.sets["short"], "episode": episode, "sets": ws.sets}
    for name in [
        *registry._OTHER_NAMES,
        *["corr", "cumsum", "fps", "stats", "to_torch", "serialize", "sort_index"],
    ]:
        try:
            getattr(things[kind], name)
        except AttributeError as error:
            assert isinstance(error, AresError) and error.detail, (name, error)
            assert not hasattr(things[kind], name), name
