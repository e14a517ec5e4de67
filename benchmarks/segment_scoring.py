"""How near the boundaries that a segmenter finds lie to those of a log: F1, recall of short events, edit score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.event_logs import LogEvent

# A found boundary is right so near a true one, and an event is short below so many seconds.
TOLERANCE_SECONDS = 0.5
SHORT_EVENT_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentScore:
    """Counts of one episode; the sums of episodes are counts again.

    Attributes:
        hits: Pairs of a found and a true boundary.
        found: Boundaries found.
        true: Boundaries of the log.
        short_hits: Short events of which both ends are found.
        short: Short events.
        edit: Sum over arms of the segmental edit score, from 0 to 100.
        arms: Arms.
        errors: Seconds between the boundaries of each pair, found less true.
    """

    hits: int
    found: int
    true: int
    short_hits: int
    short: int
    edit: float
    arms: int
    errors: tuple[float, ...]


def score_arm(
    found: Sequence[float], true: Sequence[float], events: Sequence[LogEvent], duration: float
) -> SegmentScore:
    """The score of one arm.

    Args:
        found: Boundaries that a segmenter found, in seconds, sorted.
        true: Those of the log, sorted.
        events: The events of the log, one after another.
        duration: Of the episode.
    """
    pairs = match_boundaries(found, true)
    right = [true[number] for _, number in pairs]
    short = [event for event in events if event.stop - event.start < SHORT_EVENT_SECONDS]
    ends = [0.0, duration, *right]
    is_found = [
        all(_nearest(true, end, duration) in ends for end in (event.start, event.stop)) for event in short
    ]
    return SegmentScore(
        hits=len(pairs),
        found=len(found),
        true=len(true),
        short_hits=sum(is_found),
        short=len(short),
        edit=edit_score(found, events, duration),
        arms=1,
        errors=tuple(found[a] - true[b] for a, b in pairs),
    )


def _nearest(true: Sequence[float], second: float, duration: float) -> float:
    """The true boundary, or the end of the episode, that a change of the log belongs to."""
    return min([0.0, duration, *true], key=lambda own: abs(own - second))


def match_boundaries(
    found: Sequence[float], true: Sequence[float], tolerance: float = TOLERANCE_SECONDS
) -> list[tuple[int, int]]:
    """The most pairs of a found and a true boundary at most so many seconds apart, in order, each once."""
    pairs: list[tuple[int, int]] = []
    first = second = 0
    while first < len(found) and second < len(true):
        if found[first] < true[second] - tolerance - 1e-9:
            first += 1
        elif true[second] < found[first] - tolerance - 1e-9:
            second += 1
        else:
            pairs.append((first, second))
            first, second = first + 1, second + 1
    return pairs


def edit_score(found: Sequence[float], events: Sequence[LogEvent], duration: float) -> float:
    """Segmental edit score, 0 to 100, after Lea et al., "Segmental spatiotemporal CNNs" (ECCV 2016): each found segment
    has the name of the event that it shares most time with, and the sequences of names are compared."""
    ends = [0.0, *found, duration]
    names = [
        max(events, key=lambda own: min(own.stop, stop) - max(own.start, start)).name
        for start, stop in pairwise(ends)
    ]
    truth = [event.name for event in events]
    return 100 * (1 - _edit_distance(names, truth) / max(len(names), len(truth)))


def _edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    row = list(range(len(second) + 1))
    for number, own in enumerate(first, 1):
        before, row[0] = row[0], number
        for at, other in enumerate(second, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (own != other))
    return row[-1]


def add_scores(scores: Sequence[SegmentScore]) -> SegmentScore:
    """The sum of scores."""
    return SegmentScore(
        hits=sum(own.hits for own in scores),
        found=sum(own.found for own in scores),
        true=sum(own.true for own in scores),
        short_hits=sum(own.short_hits for own in scores),
        short=sum(own.short for own in scores),
        edit=sum(own.edit for own in scores),
        arms=sum(own.arms for own in scores),
        errors=tuple(error for own in scores for error in own.errors),
    )


def summarise(score: SegmentScore) -> dict[str, float]:
    """The measures of a sum of scores: shares, the edit score, and the median error in seconds."""
    precision, recall = score.hits / max(score.found, 1), score.hits / max(score.true, 1)
    return {
        "F1": 2 * precision * recall / max(precision + recall, 1e-12),
        "precision": precision,
        "recall": recall,
        "short recall": score.short_hits / max(score.short, 1),
        "edit": score.edit / max(score.arms, 1),
        "over": (score.found - score.hits) / max(score.true, 1),
        "under": 1 - recall,
        "error": float(np.median(np.abs(score.errors))) if score.errors else float("nan"),
    }


def bootstrap_intervals(
    scores: Sequence[SegmentScore], names: Sequence[str], draws: int = 1000, seed: int = 0
) -> Mapping[str, tuple[float, float]]:
    """The 95 % intervals of measures by drawing episodes, with all that is in them, again and again."""
    rng, rows = np.random.default_rng(seed), np.array([_counts(own) for own in scores], dtype=float)
    sums = np.stack([rows[rng.integers(0, len(rows), len(rows))].sum(axis=0) for _ in range(draws)])
    return {
        name: (float(low), float(high))
        for name in names
        for low, high in [np.quantile(_measure(sums, name), [0.025, 0.975])]
    }


def _counts(score: SegmentScore) -> tuple[float, ...]:
    return (score.hits, score.found, score.true, score.short_hits, score.short, score.edit, score.arms)


def _measure(sums: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    hits, found, true, short_hits, short, edit, arms = sums.T
    values = {
        "F1": 2 * hits / np.maximum(found + true, 1),
        "short recall": short_hits / np.maximum(short, 1),
        "edit": edit / np.maximum(arms, 1),
    }
    return np.asarray(values[name])
