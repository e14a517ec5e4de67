"""`ares use`: two captioners and two judges side by side, one of them pinned; `ares status` and `ares show` say so."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ares.annotation import Column, Producer
from ares.episode import Episode
from ares.errors import RequestError
from ares.review import Answer, give_answer
from ares.search import compute_facets
from ares.workspace import Workspace
from tests.app.cli.conftest import Refused
from tests.app.contested_producers import (
    CAPTIONER,
    JUDGE,
    MARKUP,
    NEWER_JUDGE,
    OTHER_CAPTIONER,
    make_annotation,
    make_caption,
)
from tests.ares.review.measured_world import add_graded
from tests.workspaces import CommandResult

Run = Callable[..., CommandResult]


@pytest.fixture
def use(contested: Workspace, run_ares: Run) -> Run:
    """Runs a command on the contested workspace."""
    return lambda *words: run_ares(*words, "-w", contested.path)


def second_episode(workspace: Workspace) -> Episode:
    """The episode on which two captioners and two judges differ."""
    (episode,) = workspace.stores.tables.episodes.read("array_has(disagreement, 'grade')")
    return episode


def columns(workspace: Workspace, episode: Episode) -> tuple[Any, ...]:
    names = ["caption", "grade", "acceptable", "grade_maker"]
    (row,) = workspace.stores.tables.episodes.read_columns(
        names, f"episode_id = '{episode.episode_id}'"
    ).to_pylist()
    return tuple(row[name] for name in names)


def test_the_newest_producers_fill_the_columns_until_others_are_pinned(
    contested: Workspace, use: Run
) -> None:
    episode = second_episode(contested)
    newest = (MARKUP, "not_acceptable", False, NEWER_JUDGE.maker_id)
    assert columns(contested, episode) == newest
    choices = (f"caption={CAPTIONER.maker_id}", f"grade={JUDGE.maker_id[:6]}")
    producers = use("use", *choices, "--json").json["makers"]
    pinned = {
        producer["maker_id"] for members in producers.values() for producer in members if producer["pinned"]
    }
    assert pinned == {CAPTIONER.maker_id, JUDGE.maker_id}
    assert columns(contested, episode) == ("open it", "acceptable", True, JUDGE.maker_id)
    # The newer judge did not grade the caption that is shown: no grade of another caption takes its place.
    contested.use(grade="newest")
    assert columns(contested, episode) == ("open it", "acceptable", True, JUDGE.maker_id)
    contested.use(grade=NEWER_JUDGE.maker_id)
    assert columns(contested, episode) == ("open it", None, None, None)
    contested.use(caption="newest", grade="newest")
    assert columns(contested, episode) == newest


def test_captioners_and_judges_are_compared_on_what_people_say_of_both(
    contested: Workspace, use: Run, refused: Refused
) -> None:
    captioners, judges = (
        (CAPTIONER.maker_id, OTHER_CAPTIONER.maker_id),
        (JUDGE.maker_id, NEWER_JUDGE.maker_id),
    )
    where: Any = ("-w", contested.path)
    fields: Any = {"question": "acceptable", "subject_kind": "annotation"}
    assert "people judged nothing that both have" in refused("rubric", "compare", *captioners, *where)
    for caption in contested.stores.annotations.find_annotations([*contested.episodes.ids()], ["caption"]):
        for person in ("Ada", "Bob", "Eve"):  # what one person refuses is refused
            verdict = "unmet" if person == "Bob" and caption.maker_id == captioners[1] else "met"
            said = Answer(subject_id=caption.annotation_id, verdict=verdict, person=person, **fields)
            give_answer(contested.stores, said)
    # Of the first episode one producer alone has a caption; of the second both judges graded one.
    change = {"items": 1, "difference": -1.0, "only_first": 1, "only_second": 0, "p_value": pytest.approx(1)}
    for first, second in (captioners, judges):
        compared = use("rubric", "compare", first[:6], second, "--json").json
        assert compared == {"first": first, "second": second, "compared": {"caption": change}}
    says = "caption, 1 that people judged: second - first: -1.000; only"
    assert says in use("rubric", "compare", *judges).out
    for others, says in (
        ((judges[0], judges[0]), "two producers are compared"), ((judges[0], "nope"), "no single producer 'nope'"),
        (("", "nope"), "no single producer ''"),
    ):  # fmt: skip
        assert says in refused("rubric", "compare", *others, *where)


@pytest.mark.parametrize("seed", [1, 2])
def test_answers_and_outcomes_of_two_models_are_compared_on_what_people_say_of_both(
    ws: Workspace, run_ares: Run, seed: int
) -> None:
    stores = ws.stores
    rng = random.Random(seed)
    kinds: dict[str, list[Any]] = {
        "attr_lighting": ["dim", "bright"],
        "attr_cups": [1, 2],
        "attr_big": [True, False],
    }
    types: Any = {"attr_lighting": "string", "attr_cups": "int64", "attr_big": "bool"}
    columns = tuple(Column(name=name, type=types[name], meaning="Is it so?") for name in kinds)
    columns += (
        Column(
            name="attributes_unknown", type="list<string>", meaning="Not known.", needs_current_maker=True
        ),
    )
    answerers = [
        Producer(annotator="attributes", version="1", model=m, columns=columns, kind="model") for m in "ab"
    ]
    outcome = Column(name="success_verdict", type="string", meaning="Done?", needs_current_maker=True)
    judges = [
        Producer(annotator="success", version="1", model=m, columns=(outcome,), kind="model") for m in "ab"
    ]
    add_graded(stores, "." * 30)
    truth: dict[str, dict[str, Any]] = {}
    said: dict[tuple[str, str], dict[str, Any]] = {}
    for episode in stores.tables.episodes.read():
        id, done = episode.episode_id, rng.choice(["success", "failure"])
        truth[id] = {name: rng.choice(values) for name, values in kinds.items()} | {"success_verdict": done}
        give_answer(
            stores,
            Answer(subject_id=id, subject_kind="episode", question="success", verdict=done, person="Ada"),
        )
        for producer in (*answerers, *judges):
            stores.annotations.add_producer(producer)
            own = said[id, producer.maker_id] = {
                name: rng.choice([*kinds.get(name, ["success", "failure", "unsure"]), None])
                for name in truth[id]
                if (name == "success_verdict") == (producer in judges)
            }
            value = {name: word for name, word in own.items() if word is not None}
            stores.annotations.append([make_annotation(episode, producer, **value)])
    stores.sync()
    for producer in answerers:
        ws.use(attributes=producer.maker_id)
        for number, name in enumerate(kinds):
            queue = f"{producer.model}{number}"
            assert run_ares("review", "create", queue, "--question", name, "-w", ws.path).status == 0
            while item := ws.review.queue(queue).next("Ada"):
                is_true = item.text == str(truth[item.episode_id][name]).lower()
                ws.review.queue(queue).answer(item, "Ada", "met" if is_true else "unmet")
    for name, sides in (("attributes", answerers), ("success", judges)):
        first, second = (producer.maker_id for producer in sides)
        compared = run_ares("rubric", "compare", first, second, "--json", "-w", ws.path).json["compared"]
        assert set(compared) == (set(kinds) if name == "attributes" else {"success_verdict"})
        for column, change in compared.items():
            pairs = [[said[id, key][column] for key in (first, second)] for id in truth]
            rights = [
                [word == row[column] for word in pair]
                for pair, row in zip(pairs, truth.values(), strict=True)
                if None not in pair
            ]
            assert change["items"] == len(rights) > 5
            assert change["only_first"] == rights.count([True, False])
            assert change["only_second"] == rights.count([False, True])


def test_without_a_choice_the_producers_are_shown_and_what_tells_them_apart(
    contested: Workspace, use: Run
) -> None:
    assert use("use", f"caption={CAPTIONER.maker_id}").status == 0
    rows = {line.split()[1]: line for line in use("use").out.splitlines()}
    assert "pinned" in rows[CAPTIONER.maker_id]
    assert rows[OTHER_CAPTIONER.maker_id].endswith("layout=collage")
    assert "newest" not in rows[OTHER_CAPTIONER.maker_id]
    assert rows[NEWER_JUDGE.maker_id].endswith("newest  version=2")
    assert rows[CAPTIONER.maker_id] in use("status").out


def test_status_counts_the_annotations_of_each_producer(contested: Workspace, use: Run) -> None:
    producers = use("status", "--json").json["makers"]
    counts = {
        producer["maker_id"]: producer["annotations"]
        for producer in producers["caption"] + producers["grade"]
    }
    assert counts == {
        CAPTIONER.maker_id: 1,
        OTHER_CAPTIONER.maker_id: 2,
        JUDGE.maker_id: 3,
        NEWER_JUDGE.maker_id: 2,
    }
    assert [producer["maker_id"] for producer in producers["grade"] if producer["current"]] == [
        NEWER_JUDGE.maker_id
    ]


def test_status_says_where_two_producers_are_mixed(contested: Workspace, use: Run) -> None:
    """The newer captioner has all episodes of the older; a third one has the second episode alone."""
    assert use("status", "--json").json["mixed_makers"] == {}
    trial = replace(CAPTIONER, settings={"layout": "trial"})
    contested.stores.annotations.add_producer(trial)
    contested.stores.annotations.append([make_caption(second_episode(contested), trial, "try it")])
    contested.sync()
    assert use("status", "--json").json["mixed_makers"] == {"caption": 1}
    assert "1 episode with a caption by an older producer: `ares use caption=PRODUCER`" in use("status").out
    contested.use(caption=CAPTIONER.maker_id)
    assert use("status", "--json").json["mixed_makers"] == {}
    contested.use(caption="newest")
    first = min(contested.stores.tables.episodes.read(), key=lambda episode: episode.key)
    person = replace(CAPTIONER, kind="person", settings={"person": "Ada"})
    corrected = make_caption(first, person, "by hand")
    contested.stores.annotations.add_producer(person)
    for annotation, mixed in ((replace(corrected, part="VERB"), {"caption": 1}), (corrected, {})):
        contested.stores.annotations.append([annotation])
        contested.sync()
        assert use("status", "--json").json["mixed_makers"] == mixed, "a ruling corrects no caption"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("caption=ffff", CAPTIONER.maker_id),
        ("caption=", CAPTIONER.maker_id),
        ("colour=newest", "caption, grade"),
        ("caption", "caption=newest"),
        ("grade=newest", "once per annotator"),
    ],
)
def test_a_wrong_choice_is_one_line_and_changes_nothing(
    contested: Workspace, use: Run, refused: Refused, wrong: str, right: str
) -> None:
    before = columns(contested, second_episode(contested))
    assert right in refused("use", f"grade={JUDGE.maker_id}", wrong, "-w", contested.path)
    assert columns(contested, second_episode(contested)) == before
    with pytest.raises(RequestError):
        contested.use(grade=JUDGE.maker_id, caption="nobody")
    producers = use("use", "--json").json["makers"]
    assert not any(producer["pinned"] for members in producers.values() for producer in members)


def test_show_says_which_annotations_fill_the_columns(contested: Workspace, use: Run) -> None:
    episode = second_episode(contested)
    document = use("show", episode.episode_id, "--json").json
    annotations = document["annotations"]
    shown = {(row["name"], row["maker_id"]) for row in annotations if row["shown"]}
    assert ("caption", OTHER_CAPTIONER.maker_id) in shown
    assert ("caption", CAPTIONER.maker_id) not in shown
    (ruling,) = [row for row in annotations if row["part"]]
    assert (ruling["part"], ruling["kind"], ruling["subject_kind"]) == ("VERB", "person", "annotation")
    lines = use("show", episode.episode_id).out.splitlines()
    assert sum(line.startswith("caption, not shown") for line in lines) == 1
    assert sum(line.startswith("grade, not shown") for line in lines) == 2


def test_columns_that_compare_producers_are_facets_with_a_meaning(contested: Workspace) -> None:
    facets = {facet.column: facet for facet in compute_facets(contested.stores)}
    names = ("conflict", "disagreement", "grade_maker")
    assert all(facets[name].meaning for name in names)
    assert facets["conflict"].counts == (("source: success, caption: failure", 1),)
    assert dict(facets["disagreement"].counts) == {"acceptable": 1, "caption": 1, "grade": 1}
