"""Which text of a source a span meets: by time, and by the arm where both name one."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import pytest

from annotators.segment.spans import Boundary, SegmentSpan, match_texts
from ares.annotation import Annotation, Producer
from tests.annotators.samples import make_annotation, make_camera, make_episode

START = Boundary(0.0, "start", 1.0)


def _span(arm: str) -> SegmentSpan:
    return SegmentSpan(start_seconds=0.0, stop_seconds=2.0, boundary=START, arm=arm)


def _text(text: str, arm: str | None) -> Annotation:
    value = {"text": text, "style": "subtask", **({} if arm is None else {"arm": arm})}
    source = Producer(annotator="source_subtask", version="1")
    return make_annotation(source, make_episode("e", [make_camera("front", 2.0, 20.0)]), value)


@pytest.mark.parametrize("arms", list(permutations(("left", "right"))))
@pytest.mark.parametrize(
    ("left", "right"), [("left", "right"), ("left arm", "Right"), ("left_arm", "right hand")]
)
def test_texts_of_two_arms_with_the_same_times_are_linked_to_their_arms(
    arms: tuple[str, str], left: str, right: str
) -> None:
    texts = [_text("hold", right), _text("cut", left)]
    matched = match_texts([_span(arm) for arm in arms], texts)
    linked = {arms[number]: link["text"] for number, link in matched.by_span.items()}
    assert linked == {"left": "cut", "right": "hold"} and matched.num_unmatched == 0


@pytest.mark.parametrize(("of_span", "of_text"), list(product(("", "left"), (None, "", "left"))))
def test_an_arm_that_one_of_them_does_not_name_may_be_any(of_span: str, of_text: str | None) -> None:
    assert match_texts([_span(of_span)], [_text("cut", of_text)]).by_span[0]["text"] == "cut"


def test_a_text_of_another_arm_meets_no_span() -> None:
    matched = match_texts([_span("left")], [_text("hold", "right")])
    assert not matched.by_span and matched.num_unmatched == 1


def test_of_two_spans_the_one_of_the_arm_wins_whatever_overlaps_more() -> None:
    nearer, right = _span("left"), replace(_span("right"), stop_seconds=1.5)
    (link,) = match_texts([nearer, right], [_text("hold", "right")]).by_span.items()
    assert (link[0], link[1]["overlap"]) == (1, 0.75)
