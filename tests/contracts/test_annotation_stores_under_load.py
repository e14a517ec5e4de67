"""Every annotation store under load: many writers, big batches, values that cannot be stored."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from ares.annotation import Annotation
from ares.store import AnnotationStore, UnstorableError
from ares.store.log import protocol as serialization
from ares.store.log.mongo import MongoAnnotationStore
from ares.store.log.protocol import INDEXES, MAX_BYTES, MAX_DEPTH

Make = Callable[..., Annotation]
Open = Callable[[], AnnotationStore]

# SQLite takes at most 32,766 variables in a statement.
_MANY = 40_000
_WRITER = """
import sys
from ares.annotation import Annotation

def annotation(subject):
    return Annotation(episode_id=subject, name="caption", value={"text": "x" * 100}, maker_id="m", subject=subject,
                      start_seconds=0.0, stop_seconds=1.0, created="")

writer = sys.argv[1]
for batch in range(25):
    # Every writer also repeats what all others write.
    store.append([annotation(f"{writer}/{batch}/{n}") for n in range(batch * 3)] + [annotation(f"shared/{batch}")])
print(store.claim_document("locks", "one", {"by": writer}))
"""


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.slow
def test_processes_lose_nothing_and_a_reader_skips_nothing(open_database: Open) -> None:
    """A reader that only ever asks for what comes after the last number it saw has seen every annotation, once."""
    script = open_database.code + _WRITER  # type: ignore[attr-defined]
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    reader, seen, after = open_database(), list[str](), 0
    while True:
        ended = all(writer.poll() is not None for writer in writers)
        while entries := reader.read(after=after, limit=17):
            numbers = [entry.sequence for entry in entries]
            assert numbers == sorted(set(numbers)) and numbers[0] > after
            seen += [entry.annotation.episode_id for entry in entries]
            after = numbers[-1]
        if ended:
            break
    claimed = [writer.communicate()[0].strip() for writer in writers]
    expected = [
        f"{writer}/{batch}/{n}" for writer in range(4) for batch in range(25) for n in range(batch * 3)
    ]
    assert sorted(seen) == sorted([*expected, *(f"shared/{batch}" for batch in range(25))])
    assert sorted(claimed) == ["False", "False", "False", "True"]


@pytest.mark.slow
def test_more_annotations_than_a_statement_has_variables_in_one_batch(
    store: AnnotationStore, make_annotation: Make
) -> None:
    annotations = [make_annotation(f"{number:06}") for number in range(_MANY)]
    assert _MANY <= store.append(annotations) <= store.append(annotations[::1000])
    seen, after = 0, 0
    while entries := store.read(after=after, limit=_MANY // 4):
        assert [entry.annotation for entry in entries] == annotations[seen : seen + len(entries)]
        seen, after = seen + len(entries), entries[-1].sequence
    assert seen == _MANY
    subjects = [annotation.subject for annotation in annotations]
    assert len(store.find_done_subjects(annotations[0].maker_id, subjects)) == _MANY


def test_a_annotation_near_the_limit_is_kept_and_one_above_it_costs_the_others_nothing(
    store: AnnotationStore, make_annotation: Make
) -> None:
    near = make_annotation("near", value={"text": "x" * (MAX_BYTES - 1000)})
    above = make_annotation("above", value={"text": "x" * MAX_BYTES})
    before, after = make_annotation("before"), make_annotation("after")
    said = r"^a value is too large to be stored: caption of episode above: \d+ bytes, at most 15728640$"
    with pytest.raises(UnstorableError, match=said) as caught:
        store.append([before, above, near, after])
    assert list(caught.value.errors) == [1]
    assert [annotation for _, annotation in store.read()] == [before, near, after]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"jerk": float("nan")},
            "a value that is not JSON cannot be stored: caption of episode invalid: Out of",
        ),
        ({"jerk": float("-inf")}, "a value that is not JSON cannot be stored"),
        ({"set": {1, 2}}, "a value that is not JSON cannot be stored: .*set is not JSON serializable"),
        ({"deep": _nested(MAX_DEPTH)}, "a value is nested too deep to be stored"),
        ({"deep": _nested(100_000)}, "a value is nested too deep to be stored"),
    ],
    ids=["nan", "infinity", "set", "deep", "bottomless"],
)
def test_invalid_values_are_refused_alone(
    store: AnnotationStore, make_annotation: Make, value: dict[str, object], message: str
) -> None:
    with pytest.raises(UnstorableError, match=f"^{message}"):
        store.append([make_annotation("invalid", value=value), make_annotation("valid")])
    assert [annotation.episode_id for _, annotation in store.read()] == ["valid"]
    with pytest.raises(UnstorableError):
        store.put_documents("sets", {"invalid": value, "valid": [1]})  # type: ignore[dict-item]
    assert dict(store.find_documents("sets")) == {"valid": [1]}


def test_invalid_identities_are_refused_alone(store: AnnotationStore, make_annotation: Make) -> None:
    invalid = [make_annotation("half \ud83d"), make_annotation("nan", start_seconds=float("nan"))]
    with pytest.raises(UnstorableError, match="; so are 1 more") as caught:
        store.append([*invalid, make_annotation("valid")])
    str(caught.value).encode()
    assert [annotation.episode_id for _, annotation in store.read()] == ["valid"]


def test_deep_documents_are_kept(store: AnnotationStore, make_annotation: Make) -> None:
    deep = make_annotation("deep", value={"deep": _nested(MAX_DEPTH - 10), "wide": [{}] * 1000})
    store.append([deep])
    assert [annotation for _, annotation in store.read()] == [deep]
    assert serialization._nesting_depth('{"a":[[1],{"b":["]"]}],"c":"[[[[["}') == 4


def test_a_key_is_claimed_once(store: AnnotationStore) -> None:
    assert store.claim_document("sets", "pick@1", {"by": "first"})
    assert not store.claim_document("sets", "pick@1", {"by": "second"})
    assert store.get_document("sets", "pick@1") == {"by": "first"}
    store.drop_documents("sets", ["pick@1"])
    assert store.claim_document("sets", "pick@1", {"by": "second"})


def test_declared_indexes_are_there_and_made_again(open_database: Open) -> None:
    """By whoever opens the log next."""
    store = open_database()
    assert _indexes(store) >= INDEXES.keys()
    if isinstance(store, MongoAnnotationStore):
        store._annotations.drop_index("facts_about")
    else:
        store._rows("DROP INDEX facts_about")  # type: ignore[attr-defined]
    assert "facts_about" not in _indexes(store)
    assert _indexes(open_database()) >= INDEXES.keys()


def _indexes(store: AnnotationStore) -> set[str]:
    if isinstance(store, MongoAnnotationStore):
        return set(store._annotations.index_information())
    rows = store._rows("SELECT name FROM sqlite_schema WHERE type = 'index'")  # type: ignore[attr-defined]
    return {name for (name,) in rows}
