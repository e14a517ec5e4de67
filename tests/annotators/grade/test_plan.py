"""Which captions get controls: enough in every dataset, 5 % in large ones, and the same whoever works on them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from annotators.base import Work
from annotators.grade.controls import ControlPlan
from ares.annotation import Annotation
from ares.episode import Episode

PHRASES = ["wipe the table", "put the spoon in the pot", "open the microwave"]


@pytest.fixture
def works(
    episodes: dict[str, Episode], work_for: Callable[..., Work], caption_of: Callable[..., Annotation]
) -> Callable[[int], list[Work]]:
    """Works about many captions of one episode: only their ids differ."""
    episode = episodes["drawer-close_000"]
    work = work_for(episode, [], caption_of(episode, "push the drawer closed"))

    def make(count: int) -> list[Work]:
        ids = (
            hashlib.blake2b(bytes([number % 256, number // 256]), digest_size=8) for number in range(count)
        )
        return [replace(work, subject=replace(work.subject, id=key.hexdigest())) for key in ids]

    return make


def _plan(works: list[Work], captions: int = 20) -> ControlPlan:
    dataset = works[0].episode.dataset
    return ControlPlan(sizes={dataset: len(works)}, captions=captions, phrases={dataset: PHRASES})


@pytest.mark.parametrize("count", [30, 100, 1_000])
def test_a_dataset_gets_59_false_captions_and_not_many_more(
    works: Callable[[int], list[Work]], count: int
) -> None:
    members = works(count)
    plan = _plan(members)
    controls = [control for work in members for control in plan.draw(work, "push the drawer closed")]
    kinds = Counter(control.kind for control in controls)
    assert 40 <= kinds["foreign"] + kinds["flipped"] <= 140
    assert kinds["blank"] == kinds["scrambled"] == kinds["paraphrase"] == kinds["flipped"]
    expected = sum(plan.expected(work.subject) for work in members)
    assert len(controls) == pytest.approx(expected, rel=0.6)


def test_small_datasets_get_more_controls_of_each_caption(works: Callable[[int], list[Work]]) -> None:
    members = works(8)
    plan = _plan(members)
    kinds = Counter(c.kind for work in members for c in plan.draw(work, "push the drawer closed"))
    assert kinds["flipped"] == 8, "every caption has controls"
    assert kinds["foreign"] >= 48


def test_large_datasets_get_5_percent(works: Callable[[int], list[Work]]) -> None:
    members = works(3)
    plan = replace(_plan(members), sizes={members[0].episode.dataset: 1_000_000})
    assert plan.expected(members[0].subject) == pytest.approx(0.05)


def test_the_same_caption_has_the_same_controls(works: Callable[[int], list[Work]]) -> None:
    work = works(1)[0]
    first, second = ([c.text for c in _plan([work]).draw(work, "push the drawer closed")] for _ in range(2))
    assert first == second and len(first) > 5


def test_outside_a_run_nothing_is_controlled(works: Callable[[int], list[Work]]) -> None:
    plan = ControlPlan(sizes={}, captions=0, phrases={})
    assert not plan.draw(works(1)[0], "push the drawer closed")


def test_a_segment_has_no_instruction(works: Callable[[int], list[Work]]) -> None:
    work = works(1)[0]
    part = replace(work, subject=replace(work.subject, start_seconds=0.2))
    kinds = [{c.kind for c in _plan([w]).draw(w, "push the drawer closed")} for w in (work, part)]
    assert "instruction" in kinds[0] and "instruction" not in kinds[1]
