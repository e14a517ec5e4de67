"""What every annotation store holds under load: many writers, big batches, values that no store can hold."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from ares.annotation import Annotation
from ares.store import codec
from ares.store.annotations import AnnotationStore
from ares.store.codec import MAX_BYTES, MAX_DEPTH, Refused

Make = Callable[..., Annotation]
Open = Callable[[], AnnotationStore]

_WRITER = """
import sys
from ares.annotation import Annotation

def fact(subject):
    return Annotation(episode_id=subject, name="caption", value={"text": "x" * 100}, maker_id="m", subject=subject,
                      start_seconds=0.0, stop_seconds=1.0, created="")

me = sys.argv[1]
for batch in range(25):
    # Every writer also repeats what all others write.
    store.append([fact(f"{me}/{batch}/{n}") for n in range(batch * 3)] + [fact(f"shared/{batch}")])
print(store.claim("locks", "one", {"by": me}))
"""


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_processes_lose_nothing_and_a_reader_skips_nothing(open_store: Open) -> None:
    """A reader that only ever asks for what comes after the last number it saw has seen every fact, once."""
    script = open_store.code + _WRITER  # type: ignore[attr-defined]
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    reader, seen, after = open_store(), list[str](), 0
    while True:
        ended = all(writer.poll() is not None for writer in writers)
        while logged := reader.read(after=after, limit=17):
            numbers = [one.sequence for one in logged]
            assert numbers == sorted(set(numbers)) and numbers[0] > after
            seen += [one.annotation.episode_id for one in logged]
            after = numbers[-1]
        if ended:
            break
    claimed = [writer.communicate()[0].strip() for writer in writers]
    own = [f"{me}/{batch}/{n}" for me in range(4) for batch in range(25) for n in range(batch * 3)]
    assert sorted(seen) == sorted([*own, *(f"shared/{batch}" for batch in range(25))])
    assert sorted(claimed) == ["False", "False", "False", "True"]


def test_a_hundred_thousand_facts_in_one_batch(store: AnnotationStore, make_fact: Make) -> None:
    facts = [make_fact(f"{number:06}") for number in range(100_000)]
    assert 100_000 <= store.append(facts) <= store.append(facts[::1000])
    seen, after = 0, 0
    while logged := store.read(after=after, limit=25_000):
        assert [fact.episode_id for _, fact in logged] == [f"{seen + at:06}" for at in range(len(logged))]
        seen, after = seen + len(logged), logged[-1].sequence
    assert seen == 100_000
    assert len(store.done(facts[0].maker_id, [fact.subject for fact in facts])) == 100_000


def test_a_fact_near_the_limit_is_kept_and_one_above_it_costs_the_others_nothing(
    store: AnnotationStore, make_fact: Make
) -> None:
    near = make_fact("near", value={"text": "x" * (MAX_BYTES - 1000)})
    above = make_fact("above", value={"text": "x" * MAX_BYTES})
    with pytest.raises(Refused) as caught:
        store.append([make_fact("before"), above, near, make_fact("after")])
    assert re.fullmatch(
        r"a value is too large to be stored: caption of episode above: \d+ bytes, at most 15728640",
        str(caught.value),
    )
    assert list(caught.value.cases) == [1]
    assert [fact for _, fact in store.read()] == [make_fact("before"), near, make_fact("after")]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            {"jerk": float("nan")},
            "a value that is no JSON cannot be stored: caption of episode odd: Out of range",
        ),
        ({"jerk": float("-inf")}, "a value that is no JSON cannot be stored"),
        ({"set": {1, 2}}, "a value that is no JSON cannot be stored: .*set is not JSON serializable"),
        ({"deep": _nested(MAX_DEPTH)}, "a value is nested too deep to be stored"),
        ({"deep": _nested(100_000)}, "a value is nested too deep to be stored"),
    ],
    ids=["nan", "infinity", "set", "deep", "bottomless"],
)
def test_odd_values_are_refused_alone(
    store: AnnotationStore, make_fact: Make, value: dict[str, object], told: str
) -> None:
    with pytest.raises(Refused, match=f"^{told}"):
        store.append([make_fact("odd", value=value), make_fact("even")])
    assert [fact.episode_id for _, fact in store.read()] == ["even"]
    with pytest.raises(Refused):
        store.put("sets", {"odd": value, "even": [1]})  # type: ignore[dict-item]
    assert dict(store.find("sets")) == {"even": [1]}


def test_odd_identities_are_refused_alone(store: AnnotationStore, make_fact: Make) -> None:
    odd = [make_fact("half \ud83d"), make_fact("nan", start_seconds=float("nan"))]
    with pytest.raises(Refused, match="; so are 1 more") as caught:
        store.append([*odd, make_fact("even")])
    str(caught.value).encode()
    assert [fact.episode_id for _, fact in store.read()] == ["even"]


def test_deep_documents_are_kept(store: AnnotationStore, make_fact: Make) -> None:
    deep = make_fact("deep", value={"deep": _nested(MAX_DEPTH - 10), "wide": [{}] * 1000})
    store.append([deep])
    assert [fact for _, fact in store.read()] == [deep]
    assert codec._depth({"a": [[1], {"b": []}], "c": "text"}) == 4


def test_a_key_is_claimed_once(store: AnnotationStore) -> None:
    assert store.claim("sets", "pick@1", {"by": "first"})
    assert not store.claim("sets", "pick@1", {"by": "second"})
    assert store.get("sets", "pick@1") == {"by": "first"}
    store.drop("sets", ["pick@1"])
    assert store.claim("sets", "pick@1", {"by": "second"})


def test_declared_indexes_are_there_and_made_again(open_store: Open) -> None:
    store = open_store()
    assert store.missing_indexes() == []
    if hasattr(store, "_facts"):
        store._facts.drop_index("facts_about")
    else:
        store._rows("DROP INDEX facts_about")  # type: ignore[attr-defined]
    assert store.missing_indexes() == ["facts_about"]
    store.make_indexes()
    assert store.missing_indexes() == []
