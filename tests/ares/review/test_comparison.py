"""Captioners and judges compared on the same segments of a workspace, with the noise of a repetition."""

from __future__ import annotations

import pytest

from ares.annotation import Annotation, Producer
from ares.errors import RequestError
from ares.review import compare_producers
from ares.rubric import GRADE_COLUMNS
from ares.workspace import Workspace


def _producer(annotator: str, model: str) -> Producer:
    is_grade = annotator == "grade"
    return Producer(
        annotator=annotator,
        version="1",
        model=model,
        columns=GRADE_COLUMNS if is_grade else (),
        kind="model",
        subject_kind="annotation" if is_grade else "episode",
        after=("caption",) if is_grade else (),
    )


FIRST, SECOND, REPEATED = (_producer("caption", name) for name in ("a", "b", "a-again"))
JUDGE, OTHER_JUDGE = (_producer("grade", name) for name in ("j", "k"))


@pytest.fixture
def workspace(video_ws: Workspace) -> Workspace:
    for producer in (FIRST, SECOND, REPEATED, JUDGE):
        video_ws.stores.annotations.add_producer(producer)
    return video_ws


def _annotate(
    ws: Workspace, producer: Producer, subject: str, episode_id: str, value: dict[str, object]
) -> str:
    annotation = Annotation(
        episode_id=episode_id,
        name=producer.annotator,
        value=value,  # type: ignore[arg-type]
        maker_id=producer.maker_id,
        subject=subject,
        start_seconds=0.0,
        stop_seconds=1.0,
        created="2026-01-01T00:00:00+00:00",
        subject_kind=producer.subject_kind,
    )
    ws.stores.annotations.append([annotation])
    return annotation.annotation_id


def _grade(
    ws: Workspace, captioner: Producer, accepted: int, judge: Producer = JUDGE, skipped: int = 0
) -> None:
    """Captions of all episodes but the last ones, of which the first ones are accepted."""
    episodes = sorted(ws.stores.tables.episodes.ids())
    for number, episode_id in enumerate(episodes[: len(episodes) - skipped]):
        caption = _annotate(ws, captioner, episode_id, episode_id, {"text": captioner.model})
        _annotate(ws, judge, caption, episode_id, {"acceptable": True if number < accepted else None})


def test_captioners_are_compared_on_the_same_segments(workspace: Workspace) -> None:
    _grade(workspace, FIRST, 3)
    _grade(workspace, SECOND, 10, skipped=1)
    compared = compare_producers(workspace.stores, FIRST.maker_id, SECOND.maker_id[:8])
    assert (compared.change.only_first, compared.change.only_second, compared.unpaired) == (0, 7, 1)
    assert (compared.first_rate, compared.second_rate) == (3 / 11, 10 / 11)
    assert compared.change.low > 0 and compared.change.p_value == pytest.approx(2 * 0.5**7)
    assert compared.judge == JUDGE.maker_id and compared.noise is None and not compared.is_noise


def test_a_difference_as_large_as_that_of_a_repetition_is_noise(workspace: Workspace) -> None:
    _grade(workspace, FIRST, 3)
    _grade(workspace, SECOND, 5)
    _grade(workspace, REPEATED, 6)
    ids = (FIRST.maker_id, SECOND.maker_id)
    compared = compare_producers(workspace.stores, *ids, repetition=REPEATED.maker_id)
    assert compared.noise is not None and compared.noise.only_second == 3
    assert compared.is_noise


def test_judges_are_compared_by_the_same_captions(workspace: Workspace) -> None:
    workspace.stores.annotations.add_producer(OTHER_JUDGE)
    _grade(workspace, FIRST, 12, JUDGE)
    _grade(workspace, FIRST, 4, OTHER_JUDGE)
    compared = compare_producers(workspace.stores, JUDGE.maker_id, OTHER_JUDGE.maker_id)
    assert (compared.change.only_first, compared.change.only_second) == (8, 0)
    assert compared.change.high < 0 and compared.judge == ""


def test_what_cannot_be_compared_is_said(workspace: Workspace) -> None:
    stores = workspace.stores
    with pytest.raises(RequestError, match="no single producer 'zz': there are:"):
        compare_producers(stores, "zz", FIRST.maker_id)
    with pytest.raises(RequestError, match="they are of caption, grade; give producers of one annotator"):
        compare_producers(stores, FIRST.maker_id, JUDGE.maker_id)
    with pytest.raises(RequestError, match="no segment was graded on both sides"):
        compare_producers(stores, FIRST.maker_id, SECOND.maker_id)
    stores.annotations.add_producer(OTHER_JUDGE)
    with pytest.raises(RequestError, match=r"by the grades of one judge.*give --judge"):
        compare_producers(stores, FIRST.maker_id, SECOND.maker_id)
