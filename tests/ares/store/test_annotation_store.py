"""What every annotation store promises, on SQLite and on a real mongod."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ares.annotation import Annotation, Column, Cost, Maker
from ares.store import codec
from ares.store.annotations import AnnotationStore

Make = Callable[..., Annotation]
Open = Callable[[], AnnotationStore]

_texts = st.text(max_size=20)
_numbers = st.floats(allow_nan=False, allow_infinity=False)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | _numbers | _texts | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)
_facts = st.builds(
    Annotation,
    episode_id=_texts,
    name=_texts,
    value=st.dictionaries(_texts, _values, max_size=4),
    maker_id=_texts,
    subject=_texts,
    start_seconds=_numbers,
    stop_seconds=_numbers,
    created=_texts,
    camera=_texts,
    frames=st.lists(_numbers, max_size=4).map(tuple),
    cost=st.builds(Cost, calls=st.integers(0, 9), tokens_in=st.integers(0, 10**12), usd=st.none() | _numbers),
)


def test_an_empty_log(store: AnnotationStore) -> None:
    assert store.last_sequence() == 0
    assert store.read() == []
    assert store.counts() == {}
    assert store.makers() == {}
    assert store.append([]) == 0


def test_facts_come_back_in_order(store: AnnotationStore, make_fact: Make) -> None:
    facts = [make_fact(f"episode{number}", value={"text": f"caption {number}"}) for number in range(25)]
    assert store.append(facts[:10]) > 0
    last = store.append(facts[10:])

    logged = store.read()
    assert [annotation for _, annotation in logged] == facts
    assert [sequence for sequence, _ in logged] == sorted({sequence for sequence, _ in logged})
    assert last == store.last_sequence() >= logged[-1].sequence


def test_facts_made_into_rows_elsewhere_are_the_same_facts(store: AnnotationStore, make_fact: Make) -> None:
    facts = [make_fact(f"episode{number}", value={"text": f"caption {number}"}) for number in range(4)]
    store.append([facts[0], codec.to_row(facts[1])])
    last = store.append([codec.to_row(fact) for fact in facts])
    assert [annotation for _, annotation in store.read()] == facts
    assert last == store.last_sequence()


def test_the_log_is_read_in_parts(store: AnnotationStore, make_fact: Make) -> None:
    facts = [make_fact(f"episode{number}") for number in range(25)]
    store.append(facts)
    seen: list[Annotation] = []
    after = 0
    while part := store.read(after=after, limit=10):
        assert len(part) <= 10
        seen += [annotation for _, annotation in part]
        after = part[-1].sequence
    assert seen == facts


def test_the_same_fact_twice_is_one_fact(store: AnnotationStore, make_fact: Make) -> None:
    first = make_fact("episode1", value={"text": "the first answer"})
    store.append([first])
    store.append(
        [
            make_fact("episode2"),
            make_fact("episode1", value={"text": "another answer"}),
            make_fact("episode2"),
        ]
    )
    assert [annotation for _, annotation in store.read()] == [first, make_fact("episode2")]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(facts=st.lists(_facts, max_size=4, unique_by=lambda fact: fact.annotation_id))
def test_any_fact_comes_back_unchanged(store: AnnotationStore, facts: list[Annotation]) -> None:
    before = {annotation.annotation_id for _, annotation in store.read()}
    store.append(facts)
    found = {annotation.annotation_id: annotation for _, annotation in store.read()}
    assert all(found[fact.annotation_id] == fact for fact in facts if fact.annotation_id not in before)
    assert set(found) == before | {fact.annotation_id for fact in facts}


@pytest.mark.parametrize(
    "text",
    ["<script>alert('x')</script> &amp;", "打开抽屉 🦾", "a\x00b\r\n", "'; DROP TABLE facts; --", "$where"],
)
def test_text_is_kept_as_it_is(store: AnnotationStore, make_fact: Make, text: str) -> None:
    fact = make_fact("episode1", value={"text": text, text: {"$set": text, "a.b": 1}})
    store.append([fact])
    store.put("sets", {text or "empty": {"name": text}})
    assert [annotation for _, annotation in store.read()] == [fact]
    assert store.get("sets", text) == {"name": text}
    assert list(store.find("sets", prefix=text)) == [(text, {"name": text})]


def test_what_a_maker_has_done(store: AnnotationStore, make_fact: Make) -> None:
    store.append(
        [make_fact("episode1", maker_id="a"), make_fact("episode2", maker_id="a", subject="caption7")]
    )
    store.append([make_fact("episode3", maker_id="b")])
    asked = ["episode1", "caption7", "episode3", "episode4", "it's"]
    assert store.done("a", asked) == {"episode1", "caption7"}
    assert store.done("a", ["caption7"]) == {"caption7"}
    assert store.done("a", []) == store.done("nobody", asked) == set()


def test_large_documents_are_read_few_at_a_time(store: AnnotationStore) -> None:
    large = "x" * 500_000
    for number in range(40):
        store.put("blocks", {f"{number:03}": [large, number]})
    tracemalloc.start()
    try:
        found = [document[1] for _, document in store.find("blocks") if isinstance(document, list)]
        assert found == list(range(40))
        assert tracemalloc.get_traced_memory()[1] < 8e6
    finally:
        tracemalloc.stop()


def test_what_was_made_about_episodes(store: AnnotationStore, make_fact: Make) -> None:
    facts = [
        make_fact(f"episode{number}", name=name) for number in range(4) for name in ("motion", "caption")
    ]
    store.append(facts)
    made = store.made(["episode1", "episode3", "nobody"], "caption")
    assert sorted(made) == sorted([facts[3].annotation_id, facts[7].annotation_id])
    assert store.made([], "caption") == store.made(["episode1"], "grade") == []


def test_facts_about_episodes(store: AnnotationStore, make_fact: Make) -> None:
    facts = [
        make_fact(f"episode{number}", name=name) for number in range(4) for name in ("motion", "caption")
    ]
    store.append(facts)
    assert store.about(["episode3", "episode1", "nobody"]) == [*facts[2:4], *facts[6:8]]
    assert store.about(["episode3", "episode1"], ["caption"]) == [facts[3], facts[7]]
    assert store.about(["episode1", "episode1"], ["caption", "grade"]) == [facts[3]]
    assert store.about([]) == []


def test_a_hundred_thousand_episodes_can_be_asked_about(store: AnnotationStore, make_fact: Make) -> None:
    known = [make_fact(f"{number:016x}") for number in range(0, 100_000, 5000)]
    store.append(known)
    assert store.about([f"{number:016x}" for number in reversed(range(100_000))], ["caption"]) == known


def test_counts_are_of_different_episodes(store: AnnotationStore, make_fact: Make) -> None:
    spans = [make_fact("episode1", start_seconds=float(start)) for start in range(3)]
    store.append([*spans, make_fact("episode2"), make_fact("episode2", name="grade")])
    assert store.counts() == {"caption": 2, "grade": 1}


def test_makers(store: AnnotationStore) -> None:
    column = Column(name="path_length", type="float64", meaning="Way of the hand.", unit="m")
    maker = Maker(annotator="motion", version="1", settings={"smooth": [1, {"σ": 0.5}]}, columns=(column,))
    store.add_maker(maker)
    store.add_maker(maker)
    other = Maker(annotator="caption", version="2", model="m", prompt_hash="p")
    store.add_maker(other)
    assert store.makers() == {maker.maker_id: maker, other.maker_id: other}


def test_documents(store: AnnotationStore) -> None:
    store.put("sets", {"pick@1": {"size": 1}, "pick@2": [1, 2.5, None, True, "x"]})
    store.put("jobs", {"pick@1": "another collection"})
    store.put("sets", {"pick@1": {"size": 3}})
    assert store.get("sets", "pick@1") == {"size": 3}
    assert store.get("sets", "pick@2") == [1, 2.5, None, True, "x"]
    assert store.get("sets", "place@1") is None

    store.drop("sets", ["pick@1", "never there"])
    assert store.get("sets", "pick@1") is None
    assert store.get("jobs", "pick@1") == "another collection"


def test_documents_are_found_by_prefix_in_order(store: AnnotationStore) -> None:
    keys = [
        "a",
        "a/1",
        "a/10",
        "a/2",
        "a0",
        "b",
        "A/1",
        "a/é",
        "a/😀",
        "a/\uffff",
        *(f"a/{n:05}" for n in range(2500)),
    ]
    store.put("blocks", dict.fromkeys(keys, 1))
    store.put("blockz", {"a/1": 2})
    wanted = sorted((key for key in keys if key.startswith("a/")), key=str.encode)
    assert [key for key, _ in store.find("blocks", "a/")] == wanted
    assert [key for key, _ in store.find("blocks")] == sorted(keys, key=str.encode)
    assert list(store.find("blocks", "a%")) == []


def test_documents_may_be_dropped_while_they_are_found(store: AnnotationStore) -> None:
    store.put("failures", {f"{number:04}": number for number in range(2500)})
    found = []
    for key, _ in store.find("failures"):
        found.append(key)
        if len(found) % 10 == 0:
            store.drop("failures", found[-10:])
    assert len(found) == 2500
    assert list(store.find("failures")) == []


def test_all_is_there_after_opening_again(open_store: Open, make_fact: Make) -> None:
    first = open_store()
    first.append([make_fact("episode1")])
    first.put("sets", {"a": 1})
    first.add_maker(Maker(annotator="caption", version="1"))
    first.close()

    again = open_store()
    assert [annotation for _, annotation in again.read()] == [make_fact("episode1")]
    assert again.get("sets", "a") == 1
    assert len(again.makers()) == 1
    assert again.append([make_fact("episode2")]) > again.read()[0].sequence


def test_a_reader_sees_every_fact_of_many_writers_once(open_store: Open, make_fact: Make) -> None:
    """Two handles, as of two processes, each used by two threads; batches are all or none visible."""
    handles = [open_store(), open_store()]
    written = threading.Event()

    def write(writer: int) -> None:
        for batch in range(15):
            about = [f"{writer}/{batch}/{fact}" for fact in range(1 + 7 * writer)]
            handles[writer % 2].append([make_fact(each) for each in about])

    threads = [threading.Thread(target=write, args=[writer]) for writer in range(4)]
    reader = open_store()
    seen: list[str] = []

    def read() -> None:
        after = 0
        while True:
            last_turn = written.is_set()
            while logged := reader.read(after=after, limit=50):
                seen.extend(annotation.episode_id for _, annotation in logged)
                after = logged[-1].sequence
            if last_turn:
                return
            time.sleep(0.001)

    polling = threading.Thread(target=read)
    for thread in [polling, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    written.set()
    polling.join()
    wanted = [f"{w}/{b}/{f}" for w in range(4) for b in range(15) for f in range(1 + 7 * w)]
    assert sorted(seen) == sorted(wanted)


def test_threads_share_one_handle(store: AnnotationStore, make_fact: Make) -> None:
    def work(worker: int) -> None:
        for turn in range(10):
            store.append([make_fact(f"{worker}/{turn}")])
            store.put("jobs", {str(worker): turn})
            assert store.done(make_fact("").maker_id, [f"{worker}/{turn}"])
            assert store.get("jobs", str(worker)) == turn

    errors: list[BaseException] = []

    def guarded(worker: int) -> None:
        try:
            work(worker)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=[worker]) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.read()) == 60
