"""Judges of segments without commands, HTTP and pixels: whether the caption of a neighbour is told from the right one.

python -m tests.judges.segments --seed 1 --episodes 200: shares of refused captions, of neighbours and of the segments
themselves, with intervals that take the segments of an episode together.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ares.annotation import Annotation, Producer, make_segment_id
from ares.episode import Episode
from ares.rubric import Verdict, read_verbs
from ares_annotators.base import Frames, Subject, Work, make_annotation_subject
from ares_annotators.caption import SEGMENT_CAPTION
from ares_annotators.grade import load_rubric
from ares_annotators.grade.additions import DatasetWords
from ares_annotators.grade.grading import GradedText, Grader, grade_texts
from ares_annotators.grade.judge import ImagesForJudge, JudgeFrames
from ares_annotators.grade.observing_judge import ObservingJudge
from ares_annotators.grade.outcome_rulings import Text
from ares_annotators.grade.outcome_source import StoredOutcomeSource
from ares_annotators.grade.segment_observer import SegmentObserver
from ares_annotators.grade.slot_values import DatasetValues, read_stored_slots
from benchmarks.clustered_counts import effective_items
from tests.judges.grading import WorldVariant
from tests.judges.parameters import JudgeParameters
from tests.judges.scores import wilson
from tests.judges.simulation import (
    ScriptedModel,
    WorldStores,
    make_caption,
    make_episode,
    numbered_plan,
)
from tests.judges.vocabulary import ACTIONS, COMPLETED
from tests.judges.world import (
    COMMON_SLOTS,
    WorldEpisode,
    WorldSettings,
    draw_truth,
    is_borne_out,
    say,
)

# Of the segments after the first: those that go on with the same thing in the same hand, and those that repeat.
_GOES_ON, _REPEATS = 0.6, 0.1
_SECONDS = 4
_CAMERA = "image"
_SETTINGS = WorldSettings(seed=0, stated=COMMON_SLOTS)


@dataclass(frozen=True, slots=True)
class SegmentedEpisode:
    """An episode of a drawn world, cut into segments of four seconds.

    Attributes:
        segments: What happens in each, with a true caption of it.
    """

    segments: Sequence[WorldEpisode]

    def span(self, number: int) -> tuple[float, float]:
        """Start and stop of a segment in seconds."""
        return float(number * _SECONDS), float((number + 1) * _SECONDS)


def draw_episodes(seed: int, count: int) -> list[SegmentedEpisode]:
    """Episodes of two to eight segments, which no two seeds share."""
    dice = random.Random(f"segments {seed}")
    settings = WorldSettings(seed=seed, stated=COMMON_SLOTS)
    drawn, first = [], 0
    for _ in range(count):
        truths = _draw_truths(dice, settings, dice.randrange(2, 9))
        drawn.append(
            SegmentedEpisode([_segment(dice, first + number, truth) for number, truth in enumerate(truths)])
        )
        first += len(truths)
    return drawn


def _draw_truths(dice: random.Random, settings: WorldSettings, count: int) -> list[Mapping[str, str]]:
    truths: list[Mapping[str, str]] = []
    for _ in range(count):
        fresh = draw_truth(dice, settings, True)
        if truths and dice.random() < _REPEATS:
            fresh = truths[-1]
        elif truths and dice.random() < _GOES_ON:
            before = truths[-1]
            others = [
                name
                for name, action in ACTIONS.items()
                if before["object"] in action.objects and name != before["action"]
            ]
            while others and fresh["action"] not in others:
                fresh = draw_truth(dice, settings, True)
            if others:
                fresh = {**fresh, **{slot: before[slot] for slot in ("object", "attributes", "hand")}}
        truths.append(fresh)
    return truths


def _segment(dice: random.Random, number: int, truth: Mapping[str, str]) -> WorldEpisode:
    """A segment with a true caption: most slots stated, some in other words."""
    said = {
        slot: value
        for slot, value in truth.items()
        if slot in ("action", "object", "outcome") or dice.random() < 0.8
    }
    is_plain = dice.random() < 0.5
    caption = say(dice, {**said, "outcome": COMPLETED}, 0.0 if is_plain else 0.5, is_plain=is_plain)
    return WorldEpisode(number=number, truth=truth, instruction="", seconds=_SECONDS, caption=caption)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SegmentVariant(WorldVariant):
    """A world whose texts are those of segments."""

    segments: Sequence[WorldEpisode]

    @property
    def episodes(self) -> list[WorldEpisode]:
        """The segments."""
        return list(self.segments)


class _SegmentFrames(Frames):
    """Frames of which nothing is read: the reader knows what each span shows."""

    def __init__(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _SpanReader(JudgeFrames):
    """Reads the numbers of segments as images."""

    numbers: Mapping[str, int]

    def select(self, subject: Subject) -> Mapping[str, Sequence[float]]:
        """A frame a second."""
        return {_CAMERA: [subject.start_seconds + second for second in range(_SECONDS)]}

    def read(self, work: Work) -> ImagesForJudge:
        """The number of the segment of a work, once for each frame."""
        import numpy as np

        subject = work.subject
        key = make_segment_id(subject.episode.episode_id, subject.start_seconds, subject.stop_seconds)
        seconds = self.select(subject)[_CAMERA]
        images: Any = [np.full(1, self.numbers[key], np.int64)] * len(seconds)
        return ImagesForJudge(plan=numbered_plan(seconds), images=images)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanResult:
    """What was ruled on the span of one text.

    Attributes:
        episode: Number of the episode.
        is_neighbours: Whether it is the caption of a neighbour.
        verdict: Verdict on SEG.
        is_accepted: Whether its grade is acceptable.
        has_choice: Whether the frames were asked beside its observation.
    """

    episode: int
    is_neighbours: bool
    verdict: Verdict
    is_accepted: bool
    has_choice: bool


def judge_segments(judge: JudgeParameters, episodes: Sequence[SegmentedEpisode]) -> list[SpanResult]:
    """Let a judge grade the caption of each segment, and in its place those of its neighbours that are false of it.

    Args:
        judge: The judge.
        episodes: The episodes.
    """
    works, grader = _make_works(episodes), _make_grader(judge, episodes)
    results: list[SpanResult] = []
    for number, (drawn, members) in enumerate(zip(episodes, works, strict=True)):
        texts: list[tuple[bool, Text]] = []
        for place, work in enumerate(members):
            truth = drawn.segments[place].truth
            for other in (place, place - 1, place + 1):
                is_neighbours = other != place
                if not 0 <= other < len(members) or (
                    is_neighbours and is_borne_out(drawn.segments[other].caption.slots, truth)
                ):
                    continue
                caption = members[other].subject.annotation
                assert caption is not None
                read = read_stored_slots(caption)
                assert read is not None
                text = Text(work=work, text=str(caption.value["text"]), slots=read.slots)
                texts.append((is_neighbours, text))
        graded = grade_texts(grader, [text for _, text in texts])
        for (is_neighbours, _), result in zip(texts, graded, strict=True):
            assert isinstance(result, GradedText), result
            results.append(_read_result(number, is_neighbours, result))
    return results


def _read_result(number: int, is_neighbours: bool, result: GradedText) -> SpanResult:
    verdicts = {ruling.criterion: ruling.verdict for ruling in result.rulings}
    return SpanResult(
        episode=number,
        is_neighbours=is_neighbours,
        verdict=verdicts["SEG"],
        is_accepted=result.value["grade"] == "acceptable",
        has_choice=any(ruling.source == "choice" for ruling in result.rulings),
    )


def _make_works(episodes: Sequence[SegmentedEpisode]) -> list[list[Work]]:
    works = []
    for drawn in episodes:
        captions = tuple(_caption(drawn, number) for number in range(len(drawn.segments)))
        frames, episode = _SegmentFrames(), _episode(drawn)
        subjects = [make_annotation_subject(episode, caption, captions) for caption in captions]
        works.append([Work(subject=subject, frames=frames, trajectory=None) for subject in subjects])
    return works


def _episode(drawn: SegmentedEpisode) -> Episode:
    episode = make_episode(drawn.segments[0], WorldVariant(settings=_SETTINGS, is_labelled=False))
    return replace(episode, num_steps=_SECONDS * len(drawn.segments), instructions=())


def _caption(drawn: SegmentedEpisode, number: int) -> Annotation:
    episode_id, (start, stop) = _episode(drawn).episode_id, drawn.span(number)
    caption = make_caption(episode_id, drawn.segments[number], has_slots=True)
    return replace(
        caption,
        name=SEGMENT_CAPTION,
        subject=make_segment_id(episode_id, start, stop),
        subject_kind="segment",
        start_seconds=start,
        stop_seconds=stop,
    )


def _make_grader(judge: JudgeParameters, episodes: Sequence[SegmentedEpisode]) -> Grader:
    segments = [segment for drawn in episodes for segment in drawn.segments]
    numbers = {
        make_segment_id(_episode(drawn).episode_id, *drawn.span(place)): segment.number
        for drawn in episodes
        for place, segment in enumerate(drawn.segments)
    }
    verbs, model = read_verbs(""), ScriptedModel(judge, segments)
    stores: Any = WorldStores(_SegmentVariant(settings=_SETTINGS, segments=segments))
    frames = _SpanReader("auto", "", numbers)
    observer, words = SegmentObserver(model, frames, stores, verbs), DatasetWords(stores, verbs)
    rivals = DatasetValues(stores, words, verbs).choose_rival
    return Grader(
        rubric=load_rubric("segment"),
        judge=ObservingJudge(model, observer, frames, stores, words, rivals),
        producer=Producer(annotator="segment_grade", version=""),
        outcomes=StoredOutcomeSource(stores=stores, producer=None, families_file=""),
        verbs=verbs,
    )


def share_with_interval(flags: Sequence[tuple[int, bool]]) -> tuple[int, int, float, float]:
    """Hits, total, and a 95 % interval of the share, which counts flags of one episode as far as they differ.

    Args:
        flags: Number of the episode, and whether it is a hit.
    """
    clusters: dict[int, list[int]] = {}
    for episode, is_hit in flags:
        cluster = clusters.setdefault(episode, [0, 0])
        cluster[0] += is_hit
        cluster[1] += 1
    hits, totals = zip(*clusters.values(), strict=True) if clusters else ((), ())
    effective = round(effective_items(hits, totals, 0.0))
    low, high = wilson(round(sum(hits) / max(1, sum(totals)) * effective), effective)
    return sum(hits), sum(totals), low, high


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how many captions are refused, of neighbours and of the segments themselves."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="seed of the episodes (1)")
    parser.add_argument("--episodes", type=int, default=200, help="number of episodes (200)")
    parser.add_argument(
        "--error", type=float, default=0.05, help="share of wrong slots that the judge sees (0.05)"
    )
    parser.add_argument("--stubborn", type=float, default=0.0, help="share of errors kept in a choice (0)")
    options = parser.parse_args(arguments)
    judge = JudgeParameters(seed=options.seed, errors={"all": options.error}, stubbornness=options.stubborn)
    results = judge_segments(judge, draw_episodes(options.seed, options.episodes))
    for label, is_neighbours in (("captions of neighbours", True), ("true captions", False)):
        own = [
            item for item in results if item.is_neighbours == is_neighbours and item.verdict is not Verdict.NA
        ]
        for verdict in (Verdict.UNMET, Verdict.UNSURE):
            hits, total, low, high = share_with_interval(
                [(item.episode, item.verdict is verdict) for item in own]
            )
            print(
                f"{label}: SEG is {verdict.value} of {hits}/{total} = {hits / total:.3f} [{low:.3f}, {high:.3f}]"
            )
        hits, total, low, high = share_with_interval([(item.episode, item.is_accepted) for item in own])
        print(f"{label}: acceptable are {hits}/{total} = {hits / total:.3f} [{low:.3f}, {high:.3f}]")
        print(f"{label}: {sum(item.has_choice for item in own) / len(own):.3f} have a choice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
