"""What every annotation store promises: SQLite, a real mongod, and the one in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.annotation import Annotation, Column, Cost, Producer, SubjectKind
from ares.store import AnnotationStore, read_spending
from ares.store.log import protocol as serialization

Make = Callable[..., Annotation]
Open = Callable[[], AnnotationStore]

_texts = st.text(max_size=20)
_numbers = st.floats(allow_nan=False, allow_infinity=False)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | _numbers | _texts | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)
_annotations = st.builds(
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
    subject_kind=st.sampled_from(get_args(SubjectKind)),
    part=_texts,
    ordinal=st.integers(0, 10),
    revision=st.integers(0, 2**63),
)


def test_an_empty_log(store: AnnotationStore) -> None:
    assert store.last_sequence() == 0
    assert store.read() == []
    assert store.count_episodes() == {}
    assert store.producers() == {}
    assert store.append([]) == 0


def test_annotations_come_back_in_order(store: AnnotationStore, make_annotation: Make) -> None:
    annotations = [make_annotation(f"episode{number}", value={"text": str(number)}) for number in range(25)]
    assert store.append(annotations[:10]) > 0
    last = store.append(annotations[10:])

    entries = store.read()
    assert [annotation for _, annotation in entries] == annotations
    assert [sequence for sequence, _ in entries] == sorted({sequence for sequence, _ in entries})
    assert last == store.last_sequence() >= entries[-1].sequence

    seen: list[Annotation] = []
    after = 0
    while page := store.read(after=after, limit=10):
        assert len(page) <= 10
        seen += [annotation for _, annotation in page]
        after = page[-1].sequence
    assert seen == annotations, "in parts, too"


def test_annotations_made_into_rows_elsewhere_are_the_same_annotations(
    store: AnnotationStore, make_annotation: Make
) -> None:
    annotations = [make_annotation(f"episode{number}", value={"text": str(number)}) for number in range(4)]
    store.append([annotations[0], serialization.annotation_to_row(annotations[1])])
    last = store.append([serialization.annotation_to_row(annotation) for annotation in annotations])
    assert [annotation for _, annotation in store.read()] == annotations
    assert last == store.last_sequence()


def test_the_same_annotation_twice_is_one_annotation(store: AnnotationStore, make_annotation: Make) -> None:
    first, second = (
        make_annotation("episode1", value={"text": "the first answer"}),
        make_annotation("episode2"),
    )
    store.append([first])
    store.append([second, make_annotation("episode1", value={"text": "another answer"}), second])
    assert [annotation for _, annotation in store.read()] == [first, second]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(annotations=st.lists(_annotations, max_size=4, unique_by=lambda annotation: annotation.annotation_id))
def test_any_annotation_comes_back_unchanged(store: AnnotationStore, annotations: list[Annotation]) -> None:
    before = {annotation.annotation_id for _, annotation in store.read()}
    store.append(annotations)
    stored = {annotation.annotation_id: annotation for _, annotation in store.read()}
    given = {annotation.annotation_id: annotation for annotation in annotations}
    assert {id: stored[id] for id in given.keys() - before} == {id: given[id] for id in given.keys() - before}
    assert stored.keys() == before | given.keys()


@pytest.mark.parametrize(
    "text",
    ["<script>alert('x')</script> &amp;", "打开抽屉 🦾", "a\x00b\r\n", "'; DROP TABLE facts; --", "$where"],
)
def test_text_is_kept_as_it_is(store: AnnotationStore, make_annotation: Make, text: str) -> None:
    annotation = make_annotation("episode1", value={"text": text, text: {"$set": text, "a.b": 1}})
    store.append([annotation])
    store.put_documents("sets", {text or "empty": {"name": text}})
    assert [annotation for _, annotation in store.read()] == [annotation]
    assert store.get_document("sets", text) == {"name": text}
    assert list(store.find_documents("sets", prefix=text)) == [(text, {"name": text})]


def test_what_a_producer_has_done(store: AnnotationStore, make_annotation: Make) -> None:
    store.append([make_annotation("episode1", maker_id="a"), make_annotation("episode3", maker_id="b")])
    store.append([make_annotation("episode2", maker_id="a", subject="caption7")])
    subjects = ["episode1", "caption7", "episode3", "episode4", "it's"]
    assert store.find_done_subjects("a", subjects) == {"episode1", "caption7"}
    assert store.find_done_subjects("a", ["caption7"]) == {"caption7"}
    assert store.find_done_subjects("a", []) == store.find_done_subjects("nobody", subjects) == set()


def test_large_documents_are_read_few_at_a_time(store: AnnotationStore) -> None:
    large = "x" * 500_000
    for number in range(40):
        store.put_documents("blocks", {f"{number:03}": [large, number]})
    tracemalloc.start()
    try:
        assert [key for key, _ in store.find_documents("blocks")] == [f"{number:03}" for number in range(40)]
        assert tracemalloc.get_traced_memory()[1] < 8e6
    finally:
        tracemalloc.stop()


def test_what_was_made_about_episodes(store: AnnotationStore, make_annotation: Make) -> None:
    store.append([make_annotation(f"episode{number}", name="caption") for number in range(4)])
    store.append([make_annotation("episode2", name="control"), make_annotation("episode0", name="control")])
    store.append([make_annotation("episode2", name="control", part="another")])
    assert store.find_episodes("control") == ["episode0", "episode2"]
    assert store.find_episodes("nothing") == []


def test_annotations_about_episodes(store: AnnotationStore, make_annotation: Make) -> None:
    annotations = [
        make_annotation(f"episode{number}", name=name)
        for number in range(4)
        for name in ("motion", "caption")
    ]
    store.append(annotations)
    found = [*annotations[2:4], *annotations[6:8]]
    assert store.find_annotations(["episode3", "episode1", "nobody"]) == found
    assert store.find_annotations(["episode3", "episode1"], ["caption"]) == [annotations[3], annotations[7]]
    assert store.find_annotations(["episode1", "episode1"], ["caption", "grade"]) == [annotations[3]]
    assert store.find_annotations([]) == []


def test_a_hundred_thousand_episodes_can_be_asked_about(
    store: AnnotationStore, make_annotation: Make
) -> None:
    existing = [make_annotation(f"{number:016x}") for number in range(0, 100_000, 5000)]
    store.append(existing)
    wanted = [f"{number:016x}" for number in reversed(range(100_000))]
    assert store.find_annotations(wanted, ["caption"]) == existing


def test_counts_are_of_different_episodes(store: AnnotationStore, make_annotation: Make) -> None:
    spans = [make_annotation("episode1", start_seconds=float(start)) for start in range(3)]
    store.append([*spans, make_annotation("episode2"), make_annotation("episode2", name="grade")])
    assert store.count_episodes() == {"caption": 2, "grade": 1}


def test_counts_by_producer_leave_out_those_without_annotations(
    store: AnnotationStore, make_annotation: Make
) -> None:
    spans = [make_annotation("episode1", start_seconds=float(start), maker_id="a") for start in range(3)]
    store.append([*spans, make_annotation("episode2", maker_id="b"), make_annotation("e", maker_id="c")])
    assert store.count_annotations(["a", "b", "nobody", "it's"]) == {"a": 3, "b": 1}
    assert store.count_annotations([]) == {}


def test_producers(store: AnnotationStore) -> None:
    column = Column(name="path_length", type="float64", meaning="Way of the hand.", unit="m")
    producer = Producer(
        annotator="motion", version="1", settings={"smooth": [1, {"σ": 0.5}]}, columns=(column,)
    )
    store.add_producer(producer)
    store.add_producer(producer)
    other = Producer(annotator="caption", version="2", model="m", prompt_hash="p")
    store.add_producer(other)
    assert store.producers() == {producer.maker_id: producer, other.maker_id: other}


def test_documents(store: AnnotationStore) -> None:
    store.put_documents("sets", {"pick@1": {"size": 1}, "pick@2": [1, 2.5, None, True, "x"]})
    store.put_documents("jobs", {"pick@1": "another collection"})
    store.put_documents("sets", {"pick@1": {"size": 3}})
    assert store.get_document("sets", "pick@1") == {"size": 3}
    assert store.get_document("sets", "pick@2") == [1, 2.5, None, True, "x"]
    assert store.get_document("sets", "place@1") is None

    store.drop_documents("sets", ["pick@1", "never there"])
    assert store.get_document("sets", "pick@1") is None
    assert store.get_document("jobs", "pick@1") == "another collection"


def test_documents_of_some_keys_come_in_one_call(store: AnnotationStore) -> None:
    keys = ["a/é", "b", "A", "a/😀", *(f"a/{number:05}" for number in range(2500))]
    store.put_documents("blocks", {key: [key] for key in keys})
    store.put_documents("blockz", {"a/x": "another collection"})
    wanted = ["a/x", *reversed(keys), "never there"]
    assert list(store.get_documents("blocks", wanted)) == [[key] for key in sorted(keys, key=str.encode)]
    assert list(store.get_documents("blocks", ["b", "b"])) == [["b"]]
    assert not list(store.get_documents("blocks", []))


def test_what_processes_spent_is_summed_by_model(store: AnnotationStore) -> None:
    for model, calls in (("a/b", 2), ("a/b", 3), ("c", 1)):
        spent = serialization.spending_document(Cost(calls=calls, tokens_in=10 * calls, usd=0.5))
        store.put_documents(serialization.MODEL_REPLIES, {serialization.new_spending_key(model): spent})
    store.put_documents(serialization.MODEL_REPLIES, {"reply": "a reply"})
    costs = {model: (cost.calls, cost.tokens_in, cost.usd) for model, cost in read_spending(store).items()}
    assert costs == {"a/b": (5, 50, 1.0), "c": (1, 10, 0.5)}


def test_documents_are_found_by_prefix_in_order(store: AnnotationStore) -> None:
    keys = ["a", "a/1", "a/10", "a/2", "a0", "b", "A/1", "a/é", "a/😀", "a/\uffff"]
    keys += [f"a/{number:05}" for number in range(2500)]
    store.put_documents("blocks", dict.fromkeys(keys, 1))
    store.put_documents("blockz", {"a/1": 2})
    expected = sorted((key for key in keys if key.startswith("a/")), key=str.encode)
    assert [key for key, _ in store.find_documents("blocks", "a/")] == expected
    assert [key for key, _ in store.find_documents("blocks")] == sorted(keys, key=str.encode)
    assert list(store.find_documents("blocks", "a%")) == []


def test_documents_may_be_dropped_while_they_are_found(store: AnnotationStore) -> None:
    store.put_documents("failures", {f"{number:04}": number for number in range(2500)})
    keys: list[str] = []
    for key, _ in store.find_documents("failures"):
        keys.append(key)
        if len(keys) % 10 == 0:
            store.drop_documents("failures", keys[-10:])
    assert len(keys) == 2500
    assert list(store.find_documents("failures")) == []


def test_all_is_there_after_opening_again(open_store: Open, make_annotation: Make) -> None:
    first = open_store()
    first.append([make_annotation("episode1")])
    first.put_documents("sets", {"a": 1})
    first.add_producer(Producer(annotator="caption", version="1"))
    first.close()

    again = open_store()
    assert [annotation for _, annotation in again.read()] == [make_annotation("episode1")]
    assert again.get_document("sets", "a") == 1
    assert len(again.producers()) == 1
    assert again.append([make_annotation("episode2")]) > again.read()[0].sequence


def test_threads_share_one_handle(store: AnnotationStore, make_annotation: Make) -> None:
    def work(worker: int) -> None:
        for turn in range(10):
            store.append([make_annotation(f"{worker}/{turn}")])
            store.put_documents("jobs", {str(worker): turn})
            assert store.find_done_subjects(make_annotation("").maker_id, [f"{worker}/{turn}"])
            assert store.get_document("jobs", str(worker)) == turn

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert len(store.read()) == 60


def test_deleted_annotations_are_gone_and_their_numbers_are_not_used_again(
    store: AnnotationStore, make_annotation: Callable[..., Annotation]
) -> None:
    store.append([make_annotation(episode) for episode in ("a", "b", "c")])
    last = store.last_sequence()
    assert store.count_episodes(["a", "c", "x"]) == {"caption": 2}
    assert store.delete_episodes(["b", "c", "x"]) == 2
    store.erase_deleted()
    assert [entry.annotation.episode_id for entry in store.read()] == ["a"]
    assert store.last_sequence() == last
    assert store.find_annotations(["b", "c"]) == [] and store.count_episodes() == {"caption": 1}
    assert store.append([make_annotation("c")]) > last
    assert [entry.annotation.episode_id for entry in store.read(after=last)] == ["c"]
    last = store.append([make_annotation("c", part="a")])
    store.delete_annotations([make_annotation("c").annotation_id, "x"])
    store.erase_deleted()
    assert [annotation.part for annotation in store.find_annotations(["a", "c"])] == ["", "a"]
    assert [entry.annotation.part for entry in store.read()] == ["", "a"] and store.last_sequence() == last


def test_collections_are_those_with_documents(store: AnnotationStore) -> None:
    store.put_documents("plums", {"a": 1})
    store.put_documents("apples", {"a": 1, "b": 2})
    store.drop_documents("plums", ["a"])
    assert [name for name in store.collections() if name in ("apples", "plums")] == ["apples"]


def test_a_revision_is_a_new_annotation_of_the_same_address(
    store: AnnotationStore, make_annotation: Make
) -> None:
    first = make_annotation("episode1", value={"text": "open it"})
    revised = make_annotation("episode1", value={"text": "close it"}, revision=7)
    store.append([first, revised])
    store.append([make_annotation("episode1", value={"text": "shut it"}, revision=7)])
    assert [annotation for _, annotation in store.read()] == [first, revised]
    assert first.address == revised.address


def test_candidates_and_parts_have_addresses_of_their_own(
    store: AnnotationStore, make_annotation: Make
) -> None:
    places = [(ordinal, part) for ordinal in range(3) for part in ("", "VERB")]
    annotations = [make_annotation("episode1", ordinal=ordinal, part=part) for ordinal, part in places]
    store.append([*annotations, *annotations])
    assert [annotation for _, annotation in store.read()] == annotations
    assert len({annotation.address for annotation in annotations}) == 6


def test_annotations_by_some_producers(store: AnnotationStore, make_annotation: Make) -> None:
    annotations = [
        make_annotation(f"episode{number}", name=name, maker_id=maker_id)
        for number in range(3)
        for name, maker_id in (("caption", "a"), ("caption", "b"), ("grade", "c"))
    ]
    store.append(annotations)
    ids = ["episode2", "episode0"]
    assert store.find_annotations(ids, maker_ids=["c", "a"]) == [annotations[n] for n in (0, 2, 6, 8)]
    assert store.find_annotations(ids, ["caption"], maker_ids=["b", "c"]) == [annotations[1], annotations[7]]
    assert store.find_annotations(ids, maker_ids=["nobody"]) == []


def test_annotations_about_sets(store: AnnotationStore, make_annotation: Make) -> None:
    about_set = make_annotation("", subject="pick@1", subject_kind="set", name="report")
    store.append([make_annotation("episode1"), about_set])
    assert store.find_annotations([""]) == [about_set]
    assert store.find_annotations([""], ["report"], maker_ids=[about_set.maker_id]) == [about_set]
    assert store.find_annotations(["episode1", ""]) == [make_annotation("episode1"), about_set]
    assert store.find_done_subjects(about_set.maker_id, ["pick@1", "pick@2"]) == {"pick@1"}


def test_a_row_of_layout_1_reads_as_before(store: AnnotationStore, make_annotation: Make) -> None:
    caption = make_annotation("episode1")
    grade = make_annotation("episode1", name="grade", subject=caption.annotation_id)
    body = (
        '{"value":{"text":"open the drawer"},"span":[0.0,5.0],"created":"2026-11-21T00:00:00+00:00",'
        '"camera":"","frames":[],"cost":[0,0,0,0.0]}'
    )
    for annotation in (caption, grade):
        row = serialization.annotation_to_row(annotation)
        assert row.body == body
        store.append([row._replace(body=body)])
    assert [annotation for _, annotation in store.read()] == [caption, grade]
    assert [annotation.subject_kind for _, annotation in store.read()] == ["episode", "annotation"]
