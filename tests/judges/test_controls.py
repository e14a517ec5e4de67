"""Controls of a made-up world, whose truth is known: they depend on nothing but what is said."""

from __future__ import annotations

import random
from typing import Any

import pytest
from annotators.grade.control_plan import plan_controls

from annotators.grade.slot_values import read_stored_slots
from ares.rubric import shipped_verbs
from tests.judges.grading import world_variants
from tests.judges.simulation import WorldStores
from tests.judges.vocabulary import canonical

_EPISODES = 24


def _draw_controls(stores: Any) -> dict[str, list[tuple[str, ...]]]:
    """Kind, slot and text of the controls of each caption."""
    plan = plan_controls(stores, len(stores.world), shipped_verbs())
    drawn: dict[str, list[tuple[str, ...]]] = {}
    for key, own in stores.world.items():
        read = read_stored_slots(stores.captions[key])
        slots = read.slots if read else {}
        controls = plan.draw(stores.work(key), slots, own.caption.sentence)
        drawn[key] = [(control.kind, control.slot, control.text) for control in controls]
    return drawn


@pytest.mark.parametrize("world", ["labelled", "people"])
def test_controls_do_not_depend_on_the_order_in_which_a_server_has_answered(world: str) -> None:
    variant = world_variants(random.randrange(1_000), _EPISODES)[world]
    order = random.sample(range(_EPISODES), _EPISODES)
    assert _draw_controls(WorldStores(variant)) == _draw_controls(WorldStores(variant, order))


@pytest.mark.parametrize("world", ["labelled", "rare"])
def test_no_near_miss_says_the_same_in_other_words(world: str) -> None:
    variant = world_variants(random.randrange(1_000), _EPISODES)[world]
    stores: Any = WorldStores(variant)
    plan, checked = plan_controls(stores, _EPISODES, shipped_verbs()), 0
    for key, own in stores.world.items():
        read = read_stored_slots(stores.captions[key])
        assert read is not None
        for control in plan.draw(stores.work(key), read.slots, own.caption.sentence):
            if control.kind == "near_miss":
                slot, checked = control.slot, checked + 1
                values = [slots.get(slot, "") for slots in (control.slots, read.slots)]  # type: ignore[call-overload]
                assert canonical(slot, values[0]) != canonical(slot, values[1]), (values, own.caption)
    assert checked > 3 * _EPISODES
