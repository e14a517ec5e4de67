"""Annotators of segments, votes and captions of any annotator: what they get, in one run and in several."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ares import media, registry
from ares.annotation import Column, Producer
from ares.errors import AresError, MediaError, RequestError
from ares.settings import settings_from_environment
from ares.store import pin_producers, segment_id
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import CameraSeconds, Options, Result, Subject, Work, new_annotation
from tests.annotators.runs import annotate, estimate_cost
from tests.ingesting import ingest_paths
from tests.workspaces import copy_workspace

SETTINGS = settings_from_environment({})
HALVES = Producer(
    annotator="halves",
    version="1",
    columns=(Column(name="labels", type="string", meaning="Labels.", rollup="list"),),
    fills_segments=True,
)
THIRDS = Producer(annotator="halves", version="2", columns=HALVES.columns, fills_segments=True)
JUDGE = Producer(
    annotator="judge",
    version="1",
    columns=(
        Column(name="segment_ok", type="bool", meaning="Whether it went well.", rollup="all"),
        Column(name="first_second", type="float64", meaning="Where it starts.", rollup="min"),
    ),
    subject_kind="segment",
    after=("halves",),
)
READER = Producer(
    annotator="reader",
    version="1",
    columns=(Column(name="words", type="int64", meaning="Words of the caption."),),
    subject_kind="annotation",
    after=("halves",),
)

CRITIC = Producer(
    annotator="critic",
    version="1",
    columns=(Column(name="criticised", type="bool", meaning="Whether it was looked at."),),
    subject_kind="annotation",
    after=("judge",),
)


@pytest.fixture(scope="module")
def three_episodes(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """A workspace that is only copied."""
    folder = tmp_path_factory.mktemp("subjects") / "workspace"
    with open_workspace(str(folder), SETTINGS) as opened:
        ingest_paths(opened.stores, [str(demo_samples / "video")], limit=3, quiet=True)
    return folder


@pytest.fixture
def ws(three_episodes: Path, tmp_path: Path) -> Iterator[Workspace]:
    with open_workspace(str(copy_workspace(three_episodes, tmp_path / "workspace")), SETTINGS) as opened:
        yield opened


@pytest.fixture(autouse=True)
def annotators_of_the_test() -> None:
    added = {
        "halves": SimpleNamespace(producer=HALVES, process=split_into(2, HALVES)),
        "thirds": SimpleNamespace(producer=THIRDS, process=split_into(3, THIRDS)),
        "judge": SimpleNamespace(producer=JUDGE, process=judge, select_frames=ends),
        "reader": SimpleNamespace(producer=READER, process=count_words),
        "critic": SimpleNamespace(producer=CRITIC, process=criticise),
    }
    for name, annotator in added.items():
        registry.annotators.add(name, lambda options, stores, made=annotator: made)


def split_into(parts: int, producer: Producer) -> Callable[[Sequence[Work]], list[Result | AresError]]:
    def split(work: Work) -> Result:
        length = work.episode.duration_seconds / parts
        return Result(
            annotations=[
                new_annotation(
                    work,
                    producer,
                    {"text": f"part {number} of {parts}", "labels": f"part {number}"},
                    span=(number * length, (number + 1) * length),
                )
                for number in range(parts)
            ]
        )

    return lambda works: [split(work) for work in works]


def ends(subject: Subject) -> CameraSeconds:
    """The first second of a span, and the one before its end."""
    return {"front": [subject.start_seconds, subject.stop_seconds - 0.25]}


def judge(works: Sequence[Work]) -> list[Result | AresError]:
    return [_judge(work) for work in works]


def _judge(work: Work) -> Result | AresError:
    seconds = list(ends(work.subject)["front"])
    try:
        images = work.frames.at("front", seconds)
    except MediaError as error:
        return error
    assert len(images) == 2
    value = {"segment_ok": work.subject.start_seconds == 0.0, "first_second": work.subject.start_seconds}
    return Result(annotations=[new_annotation(work, JUDGE, value, camera="front", frames=seconds)])


def count_words(works: Sequence[Work]) -> list[Result | AresError]:
    texts = [work.subject.annotation.value["text"] for work in works if work.subject.annotation]
    return [
        Result(annotations=[new_annotation(work, READER, {"words": len(str(text).split())})])
        for work, text in zip(works, texts, strict=True)
    ]


def criticise(works: Sequence[Work]) -> list[Result | AresError]:
    return [
        Result(
            annotations=[new_annotation(work, CRITIC, {"criticised": True, "of": len(work.subject.siblings)})]
        )
        for work in works
    ]


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Each frame that is decoded: camera file and second."""
    decoded: list[tuple[str, float]] = []
    original = media.frames_at

    def frames_at(ref: Any, seconds: Sequence[float]) -> Any:
        decoded.extend((ref.uri, second) for second in seconds)
        return original(ref, seconds)

    monkeypatch.setattr(media, "frames_at", frames_at)
    return decoded


def run(ws: Workspace, *names: str) -> list[tuple[int, int, int, int]]:
    reports = annotate(ws.stores, names, Options(settings=ws.settings), quiet=True)
    return [(report.planned, report.kept, report.already, report.failed) for report in reports]


def column(ws: Workspace, name: str) -> list[Any]:
    return list(ws.stores.tables.episodes.read_columns([name])[name].to_pylist())


def test_a_judge_of_segments_sees_the_frames_of_each_segment_of_the_same_run(
    ws: Workspace, decodings: list[tuple[str, float]]
) -> None:
    assert run(ws, "halves", "judge") == [(3, 3, 0, 0), (6, 6, 0, 0)]
    assert len(decodings) == len(set(decodings)) == 12
    ids = sorted(ws.stores.tables.episodes.ids())
    for annotation in ws.stores.annotations.find_annotations(ids, ["judge"]):
        assert annotation.subject_kind == "segment"
        start, stop = annotation.start_seconds, annotation.stop_seconds
        assert annotation.frames == pytest.approx((start, stop - 0.25))
    assert column(ws, "segment_ok") == [False] * 3
    assert column(ws, "first_second") == [0.0] * 3
    assert column(ws, "labels") == [["part 0", "part 1"]] * 3
    assert ws.stores.tables.segments.count("segment_ok") == 3
    assert run(ws, "halves", "judge") == [(3, 0, 3, 0), (6, 0, 6, 0)]


def test_two_runs_are_as_one(ws: Workspace) -> None:
    assert run(ws, "judge") == [(0, 0, 0, 0)]
    assert run(ws, "halves") == [(3, 3, 0, 0)]
    (quote,) = estimate_cost(ws.stores, ["judge"], Options(settings=SETTINGS))
    assert (quote.planned, quote.already, quote.frames) == (6, 0, 12)
    assert run(ws, "judge") == [(6, 6, 0, 0)]
    (quote,) = estimate_cost(ws.stores, ["judge"], Options(settings=SETTINGS))
    assert (quote.planned, quote.already, quote.frames) == (6, 6, 0)


def test_another_segmenter_replaces_the_segments_and_the_values_of_the_old_ones(ws: Workspace) -> None:
    run(ws, "halves", "judge")
    run(ws, "thirds")
    assert column(ws, "labels") == [["part 0", "part 1", "part 2"]] * 3
    assert column(ws, "segment_ok") == [None] * 3
    assert ws.stores.tables.segments.count() == 9
    assert run(ws, "judge") == [(9, 9, 0, 0)]
    assert column(ws, "first_second") == [0.0] * 3
    pin_producers(ws.stores.annotations, {"halves": HALVES.maker_id})
    ws.sync()
    assert column(ws, "labels") == [["part 0", "part 1"]] * 3
    assert ws.stores.tables.segments.count() == 6
    assert ws.stores.tables.segments.count("segment_ok IS NOT NULL") == 6
    assert run(ws, "judge") == [(6, 0, 6, 0)]


@pytest.mark.slow
def test_what_was_said_of_segments_that_are_shown_no_more_is_no_subject(ws: Workspace) -> None:
    run(ws, "halves", "judge")
    assert run(ws, "critic") == [(6, 6, 0, 0)]
    assert run(ws, "thirds", "judge") == [(3, 3, 0, 0), (9, 9, 0, 0)]
    (quote,) = estimate_cost(ws.stores, ["critic"], Options(settings=SETTINGS))
    assert (quote.planned, quote.already) == (9, 0)
    assert run(ws, "critic") == [(9, 9, 0, 0)]
    ids = sorted(ws.stores.tables.episodes.ids())
    said = ws.stores.annotations.find_annotations(ids, ["critic"])
    assert [annotation.value["of"] for annotation in said] == [2] * 6 + [3] * 9
    # The old segments are shown again, and what was said of them is known.
    pin_producers(ws.stores.annotations, {"halves": HALVES.maker_id})
    ws.sync()
    assert run(ws, "judge", "critic") == [(6, 0, 6, 0), (6, 0, 6, 0)]


def test_one_run_makes_segments_and_says_something_of_what_it_has_said_of_them(ws: Workspace) -> None:
    assert run(ws, "halves", "judge", "critic") == [(3, 3, 0, 0), (6, 6, 0, 0), (6, 6, 0, 0)]
    # Nothing was said of the new segments yet, and the old ones are shown no more when the critic comes to them.
    assert run(ws, "thirds", "critic") == [(3, 3, 0, 0), (0, 0, 0, 0)]


@pytest.mark.slow
def test_a_trial_of_another_segmenter_changes_the_subjects_of_its_episodes_alone(ws: Workspace) -> None:
    run(ws, "halves")
    annotate(ws.stores, ["thirds"], Options(settings=SETTINGS), quiet=True, limit=1)
    assert run(ws, "judge") == [(7, 7, 0, 0)]
    assert ws.stores.tables.segments.count("segment_ok IS NOT NULL") == 7


def test_a_roll_up_over_some_of_the_segments_is_empty_unless_they_decide_it(ws: Workspace) -> None:
    run(ws, "halves")
    ids = sorted(ws.stores.tables.episodes.ids())
    segments = [ws.stores.annotations.find_annotations([episode_id], ["halves"])[0] for episode_id in ids[:2]]
    ws.stores.annotations.add_producer(JUDGE)
    for segment, is_ok in ((segments[0], True), (segments[1], False)):
        judged = replace(
            segment,
            name="judge",
            maker_id=JUDGE.maker_id,
            subject=segment_id(segment),
            subject_kind="segment",
            value={"segment_ok": is_ok, "first_second": 0.0},
        )
        ws.stores.annotations.append([judged])
    ws.sync()
    rows = {
        row["episode_id"]: row
        for row in ws.stores.tables.episodes.read_columns(
            ["episode_id", "segment_ok", "first_second"]
        ).to_pylist()
    }
    assert [rows[episode_id]["segment_ok"] for episode_id in ids] == [None, False, None]
    assert [rows[episode_id]["first_second"] for episode_id in ids] == [None] * 3


def test_an_annotation_of_an_annotation_fills_its_segment_and_no_column_of_the_episode(ws: Workspace) -> None:
    """The segments have no value of the episode, so what is said of them is none either."""
    assert run(ws, "halves", "reader") == [(3, 3, 0, 0), (6, 6, 0, 0)]
    assert ws.stores.tables.segments.count("words = 4") == 6
    assert column(ws, "words") == [None] * 3


def test_a_video_that_cannot_be_read_fails_its_segments_alone(demo_samples: Path, tmp_path: Path) -> None:
    shutil.copytree(demo_samples / "video" / "videos", tmp_path / "videos")
    with open_workspace(str(tmp_path / "other"), SETTINGS) as other:
        ingest_paths(other.stores, [str(tmp_path / "videos")], limit=2, quiet=True)
        Path(next(other.stores.tables.episodes.read()).camera("front").media.uri).unlink()
        assert run(other, "halves", "judge") == [(2, 2, 0, 0), (4, 2, 0, 2)]


def test_an_annotator_that_names_no_segments_is_refused(ws: Workspace) -> None:
    producer = Producer(annotator="lost", version="1", subject_kind="segment")
    registry.annotators.add("lost", lambda options, stores: SimpleNamespace(producer=producer, process=judge))
    with pytest.raises(RequestError, match="'lost' cannot be run over episodes"):
        run(ws, "lost")
