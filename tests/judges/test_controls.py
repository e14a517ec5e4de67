"""Controls of a made-up world, whose truth is known: they depend on nothing but what is said."""

from __future__ import annotations

import random
from typing import Any

import pytest

from annotators.grade.control_plan import plan_controls
from annotators.grade.slot_values import read_stored_slots
from tests.judges.grading import world_variants
from tests.judges.simulation import WorldStores

_EPISODES = 24


def _draw_controls(stores: Any) -> dict[str, list[tuple[str, ...]]]:
    """Kind, slot and text of the controls of each caption."""
    plan = plan_controls(stores, len(stores.world))
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
