"""Values that travel to worker processes come back as they were, in the form in which Python pickles them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from ares.annotation import Annotation, Cost
from ares.episode import Episode
from ares.process_tuning import fast_slots_pickling


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    name: str
    sizes: tuple[int, ...] = ()


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class Child(Parent):
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainChild(Parent):
    tags: list[str] = field(default_factory=list)


def test_a_value_survives_pickling_and_deep_copies() -> None:
    child = Child(name="a", sizes=(1, 2), tags=["x"])
    for again in (pickle.loads(pickle.dumps(child)), copy.deepcopy(child)):
        assert again == child
        assert again.tags is not child.tags
        with pytest.raises(FrozenInstanceError):
            again.name = "b"  # type: ignore[misc]


def test_the_form_is_that_of_python() -> None:
    child, plain = Child(name="a", tags=["x"]), PlainChild(name="a", tags=["x"])
    assert child.__getstate__() == plain.__getstate__()


@pytest.mark.parametrize("travelling", [Episode, Annotation, Cost])
def test_the_values_of_a_run_are_pickled_by_slots(travelling: type) -> None:
    assert travelling.__getstate__.__module__ == "ares.process_tuning"
