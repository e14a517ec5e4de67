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
import pytest

import ares
from ares import registry
from ares.episode import Signal
from ares.errors import AresError
from ares.workspace import Workspace
from tests.ares.arrow_stream import Stream, frame_of
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


# What is typed, and what is equal to its result by another way.
EQUAL: dict[str, tuple[Try, Try]] = {
    "facets": (lambda ws: "dataset" in repr(ws.facets()), lambda ws: True),
    "two episodes as keys": (lambda ws: len({ws.episodes[0], ws.episodes[0]}), lambda ws: 1),
    "len(set)": (lambda ws: len(ws.sets["short"]), lambda ws: 3),
    "episode in set": (lambda ws: ws.episodes.sort("num_steps")[0] in ws.sets["short"], lambda ws: True),
    "5 in view": (lambda ws: 5 in ws.episodes, lambda ws: False),
    "view[np.int64(2)]": (lambda ws: ws.episodes[np.int64(2)].episode_id, lambda ws: ids(ws.episodes)[2]),
    "view[::2]": (lambda ws: ids(ws.episodes[::2]), lambda ws: ids(ws.episodes)[::2]),
    "view[::-1]": (lambda ws: ids(ws.episodes[::-1]), lambda ws: ids(ws.episodes)[::-1]),
    "view[[4, 0]]": (lambda ws: ids(ws.episodes[[4, 0]]), lambda ws: [ids(ws.episodes)[n] for n in (4, 0)]),
    "view[np.array]": (
        lambda ws: ids(ws.episodes[np.array([4, -1])]), lambda ws: [ids(ws.episodes)[n] for n in (4, 8)],
    ),
    "view[[id, id]]": (lambda ws: ids(ws.episodes[ids(ws.episodes)[3:5]]), lambda ws: ids(ws.episodes)[3:5]),
    "view[mask of numpy]": (
        lambda ws: ids(ws.episodes[np.arange(9) % 2 == 0]), lambda ws: ids(ws.episodes)[::2],
    ),
    "view[mask of flags]": (
        lambda ws: ids(ws.episodes[[True] + [False] * 8]), lambda ws: ids(ws.episodes)[:1],
    ),
    "view[view[column] > n]": (
        lambda ws: ids(ws.episodes[ws.episodes["num_steps"] > 60]),
        lambda ws: ids(ws.episodes.where("num_steps > 60")),
    ),
    "two masks": (
        lambda ws: ids(ws.episodes[(ws.episodes["num_steps"] > 50) & (ws.episodes["dataset"] == "video")]),
        lambda ws: ids(ws.episodes.where("num_steps > 50 AND dataset = 'video'")),
    ),
    "mask of arrow": (
        lambda ws: ids(ws.episodes[ws.episodes.to_arrow(["success"])["success"].is_valid()]),
        lambda ws: ids(ws.episodes.where("success IS NOT NULL")),
    ),
    "mask of a frame": (
        lambda ws: ids(ws.episodes[ws.episodes.to_pandas()["num_steps"].between(10, 60)]),
        lambda ws: ids(ws.episodes.where("num_steps BETWEEN 10 AND 60")),
    ),
    "view[column]": (
        lambda ws: ws.episodes["num_steps"].tolist(),
        lambda ws: ws.episodes.to_arrow(["num_steps"])["num_steps"].to_pylist(),
    ),
    "view[[column, column]]": (
        lambda ws: list(ws.episodes[["dataset", "num_steps"]].columns), lambda ws: ["dataset", "num_steps"],
    ),
    "a & b": (
        lambda ws: ids(ws.episodes.where("num_steps > 50") & ws.episodes.where("dataset = 'video'")),
        lambda ws: ids(ws.episodes.where("num_steps > 50 AND dataset = 'video'")),
    ),
    "a | b": (
        lambda ws: set(ids(ws.episodes.take(2) | ws.episodes[4:6])),
        lambda ws: {ids(ws.episodes)[n] for n in (0, 1, 4, 5)},
    ),
    "a - b": (lambda ws: ids(ws.episodes - ws.episodes.take(7)), lambda ws: ids(ws.episodes)[7:]),
    "view - set": (lambda ws: len(ws.episodes - ws.sets["short"]), lambda ws: 6),
    "members | list of ids": (lambda ws: len(ws.sets["short"].members | ids(ws.episodes)), lambda ws: 9),
    "members - set": (lambda ws: len(ws.sets["short"].members - ws.sets["short"]), lambda ws: 0),
    "(a | b).where": (
        lambda ws: ids((ws.episodes.take(3) | ws.episodes[5:]).where("dataset = 'video'")),
        lambda ws: [
            episode.episode_id for n, episode in enumerate(ws.episodes)
            if n not in (3, 4) and episode.dataset == "video"
        ],
    ),
    "(a & b).sort": (
        lambda ws: ids((ws.episodes & ws.episodes.take(5)).sort("num_steps"))[0],
        lambda ws: min(ws.episodes.take(5), key=lambda episode: episode.num_steps).episode_id,
    ),
    "sample[1]": (
        lambda ws: ws.episodes.sample(seed=3)[1].episode_id, lambda ws: ids(ws.episodes.sample(seed=3))[1],
    ),
    "view[column].value_counts": (
        lambda ws: ws.episodes["dataset"].value_counts().to_dict()["video"], lambda ws: 6,
    ),
    "groupby": (
        lambda ws: {name: len(view) for name, view in ws.episodes.groupby("dataset").items()}["video"],
        lambda ws: 6,
    ),
    "count_by": (lambda ws: ws.episodes.count_by("dataset")[0].episodes, lambda ws: 6),
    "sql": (
        lambda ws: ws.episodes.sql("SELECT dataset, count(*) AS n FROM episodes GROUP BY 1 ORDER BY n")["n"].tolist(),
        lambda ws: [3, 6],
    ),
    "view.sql": (
        lambda ws: int(ws.episodes.where("dataset = 'video'").sql("select max(num_steps) m from episodes")["m"][0]),
        lambda ws: max(episode.num_steps for episode in ws.episodes.where("dataset = 'video'")),
    ),
    "FROM": (lambda ws: len(ws.episodes.sql("FROM episodes")), lambda ws: 9),
    "set.to_pandas": (lambda ws: len(ws.sets["short"].members.to_pandas()), lambda ws: 3),
    "with_ids of hits": (lambda ws: len(ws.episodes.with_ids(ws.episodes.take(2))), lambda ws: 2),
    "tag a view": (lambda ws: ws.tag("seen", ws.episodes.take(4)).count, lambda ws: 4),
    "a set of a view": (lambda ws: ws.sets.create("some", ws.episodes[::3]).episodes, lambda ws: 3),
    "np.asarray(signal)": (
        lambda ws: np.asarray(Signal(np.ones((3, 2), np.float32), ("a", "b"))).shape, lambda ws: (3, 2),
    ),
    "len(signal)": (lambda ws: len(Signal(np.ones((3, 2), np.float32), ("a", "b"))), lambda ws: 3),
    "pickle ws": (lambda ws: len(pickle.loads(pickle.dumps(ws)).episodes), lambda ws: 9),
    "pickle view": (
        lambda ws: ids(pickle.loads(pickle.dumps(ws.episodes.where("num_steps > 50")))),
        lambda ws: ids(ws.episodes.where("num_steps > 50")),
    ),
    "pickle episode": (
        lambda ws: pickle.loads(pickle.dumps(ws.episodes[0])).episode_id, lambda ws: ids(ws.episodes)[0],
    ),
    "hasattr": (lambda ws: hasattr(ws.episodes, "iloc"), lambda ws: False),
    "dir(ares) has open": (lambda ws: {"open", "check", "Workspace"} <= set(dir(ares)), lambda ws: True),
    "plot numbers": (
        lambda ws: ws.episodes.plot("num_steps", color="dataset").to_dict()["encoding"]["color"]["field"],
        lambda ws: "dataset",
    ),
    "set_values of a dict": (
        lambda ws: (
            ws.set_values("of_dict", {id: n / 2 for n, id in enumerate(ids(ws.episodes))}).count,
            len(ws.episodes.where("of_dict > 2")),
            ws.episodes.sql("SELECT max(of_dict) AS m FROM episodes")["m"][0],
            [facet.type for facet in ws.facets(columns=["of_dict"])],
        ),
        lambda ws: (9, 4, 4.0, ["float64"]),
    ),
    "set_values of a Series": (
        lambda ws: (
            ws.set_values("of_series", ws.episodes.to_pandas().set_index("episode_id")["num_steps"]).count,
            len(ws.episodes.where("of_series = num_steps")),
        ),
        lambda ws: (9, 9),
    ),
    "set_values of a frame": (
        lambda ws: ws.set_values("of_frame", ws.episodes.to_pandas(["episode_id", "success"])).details["type"],
        lambda ws: "bool",
    ),
    "set_values of Arrow": (
        lambda ws: ws.set_values("of_arrow", ws.episodes.to_arrow(["episode_id", "dataset"])).details["type"],
        lambda ws: "string",
    ),
    "view.set_values of one value": (
        lambda ws: (ws.episodes.take(4).set_values("one", 3.0).count, ws.episodes["one"].count()),
        lambda ws: (4, 4),
    ),
    "view.set_values of a list": (
        lambda ws: (
            ws.episodes.take(2).set_values("listed", ["a", "b"]),
            ws.episodes.to_arrow()["listed"].to_pylist()[:3],
        )[1],
        lambda ws: ["a", "b", None],
    ),
    "view.set_values of a function": (
        lambda ws: (ws.episodes.set_values("twice", lambda row: 2 * row["num_steps"]), ws.episodes["twice"].sum())[1],
        lambda ws: 2 * ws.episodes["num_steps"].sum(),
    ),
    "set_values again, and undo": (
        lambda ws: [
            (change(), ws.episodes.to_arrow(["again"])["again"].to_pylist()[0])[1]
            for change in (
                lambda: ws.episodes.set_values("again", 1),
                lambda: ws.episodes.take(1).set_values("again", 7),
                lambda: ws.episodes.take(1).set_values("again", None),
                ws.undo,
                ws.undo,
            )
        ],
        lambda ws: [1, 7, None, 7, 1],
    ),
    "undo takes a new column away": (
        lambda ws: (ws.episodes.set_values("gone", 1), ws.undo(), "gone" in ws.episodes.columns)[2],
        lambda ws: False,
    ),
    "a name that was undone gets another type": (
        lambda ws: (
            ws.episodes.set_values("retyped", 1), ws.undo(), ws.episodes.set_values("retyped", "a"),
            ws.episodes.columns["retyped"],
        )[3],
        lambda ws: "string",
    ),
    "own values of what was removed come back": (
        lambda ws: (
            ws.episodes.take(2).set_values("kept", 5), ws.remove(ws.episodes.take(1)), ws.undo(),
            ws.episodes["kept"].count(),
        )[3],
        lambda ws: 2,
    ),
    "in_set in a filter": (
        lambda ws: set(ids(ws.episodes.where("in_set('short')"))), lambda ws: set(ids(ws.sets["short"])),
    ),
    "NOT in_set, page by page": (
        lambda ws: ids(ws.episodes.where("NOT in_set('short')")[1:3]),
        lambda ws: ids(ws.episodes - ws.sets["short"])[1:3],
    ),
    "in_set in quotes is text": (
        lambda ws: len(ws.episodes.where("instruction <> 'in_set(''short'')'")), lambda ws: 9,
    ),
    "reviewed in a filter": (
        lambda ws: len(ws.episodes.where("reviewed()")), lambda ws: 0,
    ),
    "in_set in sql": (
        lambda ws: ws.episodes.sql(
            "SELECT count(*) FILTER (in_set('short')) AS a, count(*) FILTER (tagged('odd')) AS b,"
            " count(*) FILTER (NOT reviewed()) AS c FROM episodes"
        ).iloc[0].tolist(),
        lambda ws: [3, 2, 9],
    ),
    "in_set for segments": (
        lambda ws: len(ws.search_segments(where="in_set('short') OR tagged('odd') OR reviewed()")),
        lambda ws: 0,
    ),
    "in_set for facets": (
        lambda ws: sum(count for _, count in ws.facets("in_set('short')", columns=["dataset"])[0].counts),
        lambda ws: 3,
    ),
    "a new version of a set": (
        lambda ws: [
            (ws.sets.create("grows", ws.episodes.take(n)), len(ws.episodes.where("in_set('grows')")))[1]
            for n in (2, 5)
        ],
        lambda ws: [2, 5],
    ),
    "annotate by a function": (
        lambda ws: (
            ws.annotate(per_second, ws.episodes.where("dataset = 'video'"), quiet=True)[0].kept,
            ws.annotate(per_second, quiet=True)[0].kept,
            ws.annotate(per_second, quiet=True)[0].kept,
            len(ws.episodes.where("per_second > 0")),
            ws.producers()["per_second"][0].settings.keys(),
        ),
        lambda ws: (6, 3, 0, 9, {"source"}),
    ),
    "annotate by a function of lists": (
        lambda ws: (
            ws.annotate(cameras_of, ws.episodes[::2], batch_size=4, quiet=True)[0].kept,
            ws.episodes.columns["has_wrist"], ws.episodes.columns["num_views"],
        ),
        lambda ws: (5, "bool", "int64"),
    ),
    "a failure costs one episode": (
        lambda ws: [
            (report.kept, report.failed)
            for report in ws.annotate(fails_once, columns={"fails_once": float}, quiet=True)
        ],
        lambda ws: [(8, 1)],
    ),
    "a frame of any library": (
        lambda ws: (
            ws.set_values("by_stream", frame_of(ws.episodes, by_stream=pa.array(range(9)))).count,
            ws.episodes.set_values("by_view", frame_of(ws.episodes, by_view=pa.array(["a"] * 9))).count,
            ws.episodes.set_values("by_column", Stream(pa.chunked_array([range(9)]))).count,
            ws.add_vectors("by_lists", frame_of(ws.episodes, vector=pa.array((np.eye(9) + 0.1).tolist()))),
            ws.add_vectors("by_columns", frame_of(ws.episodes, a=pa.array([1.0] * 9), b=pa.array([0.5] * 9))),
            pa.table(ws.episodes).equals(ws.episodes.to_arrow()),
            ws.episodes.to_arrow(["by_stream", "by_view", "by_column"]).to_pylist()[8],
        ),
        lambda ws: (9, 9, 9, 9, 9, True, {"by_stream": 8, "by_view": "a", "by_column": 8}),
    ),
    "add_vectors": (
        lambda ws: (
            ws.add_vectors("my_model", (ids(ws.episodes), np.eye(9) + 0.1)),
            ws.add_vectors("my_model", {ids(ws.episodes)[0]: (np.eye(9) + 0.1)[1]}),
            ws.episodes.similar(ws.episodes[0], 1, "my_model")[0].episode_id,
            len(ws.episodes.where("dataset != 'video'").similar(ws.episodes[0], space="my_model")),
            ws.search(like=ids(ws.episodes)[1], by="frames", space="my_model", limit=1)[0].episode_id,
        ),
        lambda ws: (9, 1, ids(ws.episodes)[1], 2, ids(ws.episodes)[0]),
    ),
    "episode.plot": (
        lambda ws: "facet" in ws.episodes.where("dataset != 'video'")[0].plot().to_dict(), lambda ws: True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("typed", some_by_day(EQUAL))
def test_what_is_typed_gives_what_it_says(ws: Workspace, typed: str) -> None:
    result, expected = EQUAL[typed]
    assert result(ws) == expected(ws)


# Wrong calls, and a word of the remedy.
REFUSED: dict[str, tuple[Try, str]] = {
    "open by bytes": (lambda ws: ares.open(os.fsencode(ws.path)), "give os.fsdecode"),  # type: ignore[arg-type]
    "ws[0]": (lambda ws: ws[0], "use ws.episodes"),
    "list(ws)": (lambda ws: list(ws), "use ws.episodes"),  # type: ignore[call-overload]
    "unknown attribute": (lambda ws: ws.episodes.frozen_as, "there are"),  # type: ignore[attr-defined]
    "ws misspelled": (lambda ws: ws.episode, "episodes"),  # type: ignore[attr-defined]
    "episode misspelled": (lambda ws: ws.episodes[0].instructon, "instruction"),  # type: ignore[attr-defined]
    "set misspelled": (lambda ws: ws.sets["short"].epsiodes, "there are"),  # type: ignore[attr-defined]
    "unknown column": (lambda ws: ws.episodes.where("nothing > 3"), "nothing"),
    "unknown column of plot": (lambda ws: ws.episodes.plot("nothing"), "nothing"),
    "unknown column of sql": (lambda ws: ws.episodes.sql("SELECT nothing FROM episodes"), "nothing"),
    "unknown table of sql": (lambda ws: ws.episodes.sql("SELECT * FROM others"), "episodes"),
    "sql that writes": (lambda ws: ws.episodes.sql("DROP TABLE episodes"), "SELECT"),
    "sql that reads a file": (
        lambda ws: ws.episodes.sql("SELECT * FROM read_csv('/etc/passwd')"),
        "cannot be run",
    ),
    "where of a function": (lambda ws: ws.episodes.where(lambda row: True), "SQL"),  # type: ignore[arg-type]
    "where of nothing": (lambda ws: ws.episodes.where(), "filter"),  # type: ignore[call-arg]
    "sort of a number": (lambda ws: ws.episodes.sort(5), ""),  # type: ignore[arg-type]
    "take of a text": (lambda ws: ws.episodes.take("a"), "whole number"),  # type: ignore[arg-type]
    "sample of a float": (lambda ws: ws.episodes.sample(0.5), "whole number"),  # type: ignore[arg-type]
    "sample with a wrong seed": (lambda ws: ws.episodes.sample(2, seed="a"), "seed"),  # type: ignore[arg-type]
    "sample with random_state": (lambda ws: ws.episodes.sample(2, random_state=1), "seed"),  # type: ignore[call-arg]
    "view[[99]]": (lambda ws: ws.episodes[[99]], "the view has 9"),
    "view['nothing']": (lambda ws: ws.episodes["nothing"], "nothing"),
    "view['num_stps']": (lambda ws: ws.episodes["num_stps"], "did you mean 'num_steps'"),
    "a column to come": (
        lambda ws: ws.episodes.where("caption = 'a'").take(5),
        "`ares annotate caption` makes it",
    ),
    "view[1.5]": (lambda ws: ws.episodes[1.5], "list of episode ids"),
    "short mask": (lambda ws: ws.episodes[[True, False]], "9 episodes"),
    "view & 5": (lambda ws: ws.episodes & 5, "list of episode ids"),
    "ws.sets['nothing']": (lambda ws: ws.sets["nothing"], "there are"),
    "ws.tag of nothing": (lambda ws: ws.tag("a", []), ""),
    "ws.tag with a wrong name": (lambda ws: ws.tag("two@words", ws.episodes), "leave out"),
    "open of a number": (lambda ws: ares.open(5), ""),  # type: ignore[arg-type]
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
    "set_values of several types": (
        lambda ws: ws.episodes.set_values("new", [1, "a"] + [None] * 7),
        "one type",
    ),
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
    "in_set of no version": (lambda ws: ws.episodes.where("in_set('short@7')"), "there are"),
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
    "vectors of no frame": (
        lambda ws: ws.add_vectors("v", Stream(pa.table({"a": [1]}))),
        "column episode_id",
    ),
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
    "groupby of two": (lambda ws: ws.episodes.groupby(["dataset", "success"]), ""),  # type: ignore[arg-type]
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


NAMES = (
    "filter query match loc iloc at iat select select_by isin exists sort_values order_by nlargest "
    "nsmallest limit limit_samples shape count num_rows size num_episodes column_names dtypes features "
    "get_field_schema schema info unique distinct nunique count_values apply iterrows itertuples "
    "transform mean sum min max std median quantile bounds agg aggregate pivot_table merge join to_csv "
    "to_parquet to_json to_dict to_list to_numpy train_test_split random_split drop exclude "
    "remove_columns rename_column concatenate append concat extend union set_values set_field add_column "
    "assign tag_samples tags match_tags save persist freeze clone export push_to_hub save_to_disk write "
    "values tolist items keys dropna fillna astype reset_index set_index corr hist cumsum rolling "
    "resample melt stack filter_labels to_torch with_format select_columns cast flatten "
    "class_encode_column add_item interleave iter shard sort_index hf_dataset episode_data_index fps "
    "camera_keys video_frame_keys stats delta_timestamps meta ids_of geo_near mapped to_patches "
    "compute_metadata set_label_values create_index list_indexes serialize "
)


@pytest.mark.parametrize("kind", ["ws", "view", "set", "episode", "sets"])
def test_a_name_of_another_library_works_or_is_refused_with_what_does_it(ws: Workspace, kind: str) -> None:
    episode = ws.episodes[0]
    things = {"ws": ws, "view": ws.episodes, "set": ws.sets["short"], "episode": episode, "sets": ws.sets}
    for name in NAMES.split():
        try:
            getattr(things[kind], name)
        except AttributeError as error:
            assert isinstance(error, AresError) and error.detail, (name, error)
            assert not hasattr(things[kind], name), name
