"""A queue asks everybody what nobody else is asked, blind, and forgets nothing that was answered."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from ares.curation import purge_episodes, remove_episodes, select_episodes, undo
from ares.episode import Json
from ares.errors import RequestError
from ares.jobs import EpisodeSelection
from ares.review import (
    Answer,
    QueueRequest,
    ReviewQueue,
    create_queue,
    give_answer,
    list_answers,
    withdraw_answer,
)
from ares.settings import Settings
from ares.store import StagedIds, Stores, open_stores
from tests.ares.review.conftest import fill_with_captions
from tests.workspaces import copy_workspace

REQUEST = QueueRequest(name="q", question="acceptable", person="Ada", random_items=30)


class Clock:
    """A time that tests set, in seconds."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    path = tmp_path_factory.mktemp("queue") / "ws"
    with closing(open_stores(str(path), Settings())) as opened:
        fill_with_captions(opened, demo_samples)
    return path


@pytest.fixture
def stores(tmp_path: Path, template: Path) -> Iterator[Stores]:
    with closing(open_stores(str(copy_workspace(template, tmp_path / "ws")), Settings())) as opened:
        yield opened


@pytest.fixture(params=["sqlite", pytest.param("mongodb", marks=pytest.mark.slow)])
def any_stores(request: pytest.FixtureRequest, tmp_path: Path, demo_samples: Path) -> Iterator[Stores]:
    if request.param == "sqlite":
        yield request.getfixturevalue("stores")
        return
    settings = Settings(mongo_uri=request.getfixturevalue("mongo_uri"))
    with closing(open_stores(str(tmp_path / "mongo"), settings)) as opened:
        fill_with_captions(opened, demo_samples)
        yield opened


def _create(stores: Stores, request: QueueRequest = REQUEST) -> ReviewQueue:
    create_queue(stores, request, stores.tables.episodes.ids())
    return ReviewQueue(stores, request.name, Clock())


def _answer_all(queue: ReviewQueue, person: str, verdict: str = "met") -> list[int]:
    numbers: list[int] = []
    while item := queue.next(person):
        queue.answer(item, person, verdict)
        numbers.append(item.item)
    return numbers


def test_what_is_drawn_at_random_is_fixed_before_the_first_answer(stores: Stores) -> None:
    queue = _create(stores).queue
    assert (queue.items, queue.doubled) == (30, 3)
    again = _create(stores, replace(REQUEST, name="again"))
    other = _create(stores, replace(REQUEST, name="other", seed=1))
    first = ReviewQueue(stores, "q")
    assert _subjects(first) == _subjects(again) != _subjects(other)
    with pytest.raises(RequestError, match="there is a queue 'q'"):
        _create(stores)


def _subjects(queue: ReviewQueue) -> list[str]:
    return [queue._row(number)["subject"] for number in range(queue.queue.items)]


def test_a_queue_of_an_earlier_version_goes_on(stores: Stores) -> None:
    """It has strata, of which nothing is known any more."""
    document: dict[str, Json] = {**_create(stores).queue.to_json(), "strata": {"video/acceptable": [40, 20]}}
    stores.annotations.put_documents("review_queues", {"q": document})
    item = ReviewQueue(stores, "q", Clock()).next("Ada")
    assert item is not None and item.item == 0


def test_two_people_never_meet_and_a_tenth_is_asked_twice(any_stores: Stores) -> None:
    queue, second = _create(any_stores), ReviewQueue(any_stores, "q", Clock())
    asked: Counter[int] = Counter()
    for turn in range(100):
        use, person = (queue, "Ada") if turn % 2 else (second, "Ben")
        item = use.next(person)
        if item:
            assert use.next(person) == item, "the same until it is answered"
            assert "grade" not in item.to_json() and "maker" not in item.to_json()
            other = queue.next("Ada" if person == "Ben" else "Ben")
            assert other is None or (other.item, other.seat) != (item.item, item.seat)
            use.answer(item, person, "met")
            asked[item.item] += 1
    assert sorted(asked) == list(range(30))
    assert sum(count == 2 for count in asked.values()) == 3
    progress = queue.progress("Ada")
    assert (progress.answered, progress.items, progress.left) == (30, 30, 0)


def test_an_item_that_nobody_answers_is_free_again_and_a_late_answer_keeps_its_word(stores: Stores) -> None:
    queue, clock = _create(stores, replace(REQUEST, repeat=0.0)), Clock()
    queue._clock = clock
    left, other = queue.next("Ada"), queue.next("Ben")
    assert left is not None
    assert other is not None
    assert other.item == left.item + 1
    queue.answer(other, "Ben", "met")
    assert [queue.progress(person).describe_own() for person in ("Ada", "Ben")] == [
        "you: 0 of 29",
        "you: 1 of 30",
    ]
    assert queue.progress("Ben").busy_until == 1_900 and queue.progress("Ada").busy_until == 0
    clock.now += 10_000
    assert queue.progress("Ben").busy_until == 0 and queue.progress("Ben").describe_busy() == ""
    taken = queue.next("Ben")
    assert taken is not None and taken.item == left.item
    queue.answer(left, "Ada", "met")
    assert queue.progress("Ada").own == 1
    assert queue.next("Ada") is not None


def test_undo_asks_the_last_again_and_the_answer_is_gone(any_stores: Stores) -> None:
    queue = _create(any_stores)
    assert queue.undo("Ada") is None
    shown = []
    for _ in range(3):
        item = queue.next("Ada")
        assert item is not None
        queue.answer(item, "Ada", "met")
        shown.append(item.item)
    back = queue.undo("Ada")
    assert back is not None and back.item == shown[-1] and queue.next("Ada") == back
    assert len(list(list_answers(any_stores, queue="q", person="Ada"))) == queue.progress("Ada").own == 2
    queue.answer(back, "Ada", "unmet")
    assert queue.undo("Ada") == back and queue.undo("Ada") is not None
    assert [answer.item for _, answer in list_answers(any_stores)] == [shown[0]]


def test_an_answer_that_is_taken_back_by_its_id_opens_its_item(any_stores: Stores) -> None:
    queue = _create(any_stores, replace(REQUEST, random_items=4, repeat=0.0))
    assert _answer_all(queue, "Ada") == [0, 1, 2, 3]
    for annotation, answer in list(list_answers(any_stores, queue="q")):
        if answer.item in (1, 2):
            withdraw_answer(any_stores, annotation.annotation_id, "Ada")
    progress = queue.progress("Ada")
    assert (progress.answered, progress.own, progress.left) == (2, 2, 2)
    other = queue.next("Ben")
    assert other is not None and other.item == 1, "nobody keeps it"
    assert _answer_all(queue, "Ada") == [2]
    give_answer(any_stores, Answer(question="acceptable", subject_id=other.subject_id, verdict="met",
                                   subject_kind="annotation", person="Cid"))  # fmt: skip
    assert queue.progress().answered == 3, "what was said elsewhere answers no item"


def test_a_queue_reads_again_only_what_has_changed(
    any_stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What 1,000 have answered before costs the next answer nothing; what others do is seen at once."""
    queue, second = _create(any_stores), ReviewQueue(any_stores, "q", Clock())
    _answer_all(second, "Ben")
    item, before, log = queue.next("Ada"), queue.progress("Ada"), any_stores.annotations
    assert item is not None
    read: list[str] = []

    def count(method: str, what: str) -> None:
        original = getattr(log, method)

        def counted(*arguments: Any, **options: Any) -> Any:
            read.append(what or arguments[0])
            return original(*arguments, **options)

        monkeypatch.setattr(log, method, counted)

    count("find_documents", "")
    count("find_annotations", "answers")
    assert queue.progress("Ada") == before and queue.next_episodes(item, 2) is not None
    assert not {"review_seats", "answers"} & set(read)
    own = queue.progress("Ben").own
    assert second.undo("Ben") is not None and queue.progress("Ben").own == own - 1
    (annotation, _), *_ = list_answers(any_stores, person="Ben")
    withdraw_answer(any_stores, annotation.annotation_id, "Ben")
    assert queue.progress("Ben").own == own - 2
    shared, reading = ReviewQueue(any_stores, "q", Clock()), Lock()
    read_seats = shared._read_seats

    def read_alone(*given: Any) -> Any:
        assert reading.acquire(blocking=False), "of several threads one reads"
        time.sleep(0.05)
        seats = read_seats(*given)
        reading.release()
        return seats

    monkeypatch.setattr(shared, "_read_seats", read_alone)
    with ThreadPoolExecutor(3) as pool:
        assert [item.own for item in pool.map(shared.progress, ["Ben"] * 3)] == [own - 2] * 3


@pytest.mark.nightly
def test_nothing_is_lost_by_a_kill_between_the_key_and_the_next_item(stores: Stores) -> None:
    """Processes answer and are killed; what a process had acknowledged is in the log and asked no second time."""
    _create(stores, replace(REQUEST, random_items=40, repeat=0.0))
    # A fork of this process, which has threads, could do nothing safely.
    processes, acknowledged = multiprocessing.get_context("forkserver"), set[int]()
    processes.set_forkserver_preload([__name__])
    for turn in range(8):
        reader, writer = processes.Pipe(duplex=False)
        child = processes.Process(target=_answer_until_killed, args=(stores.location, writer), daemon=True)
        child.start()
        writer.close()
        assert reader.poll(300), "the process has answered nothing"
        acknowledged.add(reader.recv())
        for _ in range(turn % 4):
            os.sched_yield()
        child.kill()
        child.join()
        with suppress(EOFError):
            while True:
                acknowledged.add(reader.recv())
        reader.close()
        counting = [answer.item for _, answer in list_answers(stores, queue="q")]
        assert acknowledged <= set(counting) and len(counting) == len(set(counting))
        if len(counting) > 30:
            return


def _answer_until_killed(location: str, writer: Connection) -> None:
    """The body of a process that is killed: it writes the number of each item behind its answer."""
    own = ReviewQueue(open_stores(location, Settings()), "q")
    while item := own.next("Ada"):
        own.answer(item, "Ada", "met")
        writer.send(item.item)
    while True:
        signal.pause()


def test_a_queue_that_asks_nothing_is_refused(stores: Stores) -> None:
    """Other wrong queues: tests/app/cli/test_review.py."""
    with pytest.raises(
        RequestError, match=r"nothing to ask about.*no guess is selected; `ares annotate guess`"
    ):
        _create(stores, replace(REQUEST, annotator="guess"))
    for fields in ({"random_items": 0}, {"person": " "}):
        with pytest.raises(RequestError):
            replace(REQUEST, **fields)


def test_a_guideline_has_examples_of_its_question_and_that_of_the_lab_wins(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.md").write_text("ours alone")
    examples = {"success": "a finger wide is open", "VERB": "That it is the right drawer counts under OBJECT",
                "acceptable": "fail to open the drawer", "instruction": "fold the towel"}  # fmt: skip
    for own in ("", str(tmp_path / "own.md")):
        monkeypatch.setattr(stores, "settings", replace(stores.settings, review_guideline=own))
        for question, example in examples.items():
            text = _create(
                stores, replace(REQUEST, name=f"{question}{bool(own)}", question=question)
            ).queue.guideline
            assert text == "ours alone" if own else text.count("\n- ") >= 6 and example in text
    named = replace(REQUEST, name="named", guideline="of this queue")
    assert _create(stores, named).queue.guideline == "of this queue"


@pytest.mark.slow
def test_a_removed_episode_is_left_out_until_an_undo_brings_it_back(stores: Stores) -> None:
    queue = _create(stores, replace(REQUEST, repeat=0.0))
    before = queue.next("Ada")
    assert before is not None
    with select_episodes(stores, EpisodeSelection(ids=[before.episode_id])) as selected:
        action = remove_episodes(stores, selected)
    after = queue.next("Ada")
    assert after is not None and after.episode_id != before.episode_id
    queue.answer(after, "Ada", "met")
    rest = _answer_all(queue, "Ada")
    undo(stores, action.number)
    back = _answer_all(queue, "Ada")
    assert before.item in back and len(rest) + len(back) + 1 == queue.queue.items


def test_a_purge_takes_the_answers_and_items_of_an_episode_along(stores: Stores) -> None:
    queue = _create(stores, replace(REQUEST, repeat=0.0))
    first = queue.next("Ada")
    assert first is not None
    queue.answer(first, "Ada", "met")
    stores.sync()
    with StagedIds([first.episode_id]) as ids:
        purge_episodes(stores, ids)
    assert list(list_answers(stores)) == []
    documents = [
        document
        for collection in stores.annotations.collections()
        for _, document in stores.annotations.find_documents(collection)
    ]
    assert first.episode_id not in str(documents)
    left = _answer_all(ReviewQueue(stores, "q", Clock()), "Ada")
    assert 0 < len(left) < 29
    assert {answer.verdict for _, answer in list_answers(stores, queue="q")} == {"met"}
