"""What every annotation store keeps of subjects, parts, candidates and revisions, and how it finds them."""

from __future__ import annotations

from collections.abc import Callable

from ares.annotation import Annotation
from ares.store import AnnotationStore
from ares.store.log import protocol as serialization

Make = Callable[..., Annotation]


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
    annotations = [
        make_annotation("episode1", ordinal=ordinal, part=part)
        for ordinal in range(3)
        for part in ("", "VERB")
    ]
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
    assert store.find_annotations(ids, maker_ids=["c", "a"]) == [
        annotations[0],
        annotations[2],
        annotations[6],
        annotations[8],
    ]
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
