"""Two producers of captions, or two producers of grades, compared on the same segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.statistics import PairedDifference, compare_paired
from ares.store import keep_newest_annotations

if TYPE_CHECKING:
    from ares.annotation import Annotation, Producer
    from ares.episode import Json
    from ares.store import Stores


# The column of a producer of grades.
_ACCEPTABLE = "acceptable"
# Episode, start and stop in seconds of a segment.
Segment = tuple[str, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerComparison:
    """How often the captions of two sides are graded as true, on the same segments.

    Attributes:
        first: Id of the first producer.
        second: Id of the second.
        judge: Id of the producer of the grades, where captioners are compared; "" where judges are.
        first_rate: Share of the segments accepted on the first side, 0 to 1; no decision is not accepted.
        second_rate: The same on the second.
        change: Their paired difference.
        noise: Paired difference of the first side and its repetition; None without one.
        unpaired: Segments that only one side has a grade of.
    """

    first: str
    second: str
    judge: str
    first_rate: float
    second_rate: float
    change: PairedDifference
    noise: PairedDifference | None
    unpaired: int

    @property
    def is_noise(self) -> bool:
        """Whether the repetition differs from the side that it repeats by as many segments as the second side does."""
        return self.noise is not None and _discordant_share(self.noise) >= _discordant_share(self.change)

    def to_json(self) -> dict[str, Json]:
        """The comparison as a document."""
        return {**asdict(self), "is_noise": self.is_noise}


def compare_producers(
    stores: Stores,
    first: str,
    second: str,
    *,
    repetition: str = "",
    judge: str = "",
    where: str = "",
    seed: int = 0,
) -> ProducerComparison:
    """Compare two captioners by the grades of one judge, or two judges or rubrics by their grades of the same captions.

    Args:
        stores: Stores of the workspace.
        first: Id of a producer of captions or of grades, or the unique start of it.
        second: Id of another producer of the same annotator.
        repetition: Id of a producer that repeats the first, for example with another seed: the floor of noise; or "".
        judge: Id of the producer of the grades, for captioners; "" where there is only one.
        where: SQL filter over the episode columns.
        seed: Of the bootstrap.

    Raises:
        RequestError: A producer is unknown or ambiguous, they are of different annotators, the filter is wrong, or no
            segment was graded on both sides.
    """
    producers = stores.annotations.producers()
    sides = [
        _find_producer(producers, text) for text in (first, second, *([repetition] if repetition else []))
    ]
    annotators = sorted({producer.annotator for producer in sides})
    if len(annotators) > 1:
        raise RequestError(
            "producers cannot be compared",
            f"they are of {', '.join(annotators)}; give producers of one annotator",
        )
    grader = None if _is_judge(sides[0]) else _find_judge(producers, judge)
    accepted = _read_sides(stores, sides, grader, where)
    change = _compare_shared_segments(accepted[0], accepted[1], seed)
    shared = accepted[0].keys() & accepted[1].keys()
    return ProducerComparison(
        first=sides[0].maker_id,
        second=sides[1].maker_id,
        judge=grader.maker_id if grader else "",
        first_rate=sum(accepted[0][key] for key in shared) / len(shared),
        second_rate=sum(accepted[1][key] for key in shared) / len(shared),
        change=change,
        noise=_compare_shared_segments(accepted[0], accepted[2], seed) if repetition else None,
        unpaired=len(accepted[0].keys() ^ accepted[1].keys()),
    )


def _discordant_share(difference: PairedDifference) -> float:
    return (difference.only_first + difference.only_second) / difference.num_items


def _is_judge(producer: Producer) -> bool:
    return any(column.name == _ACCEPTABLE for column in producer.columns)


def _find_producer(producers: Mapping[str, Producer], text: str) -> Producer:
    matches = [producer for key, producer in producers.items() if text and key.startswith(text)]
    if len(matches) != 1:
        raise RequestError(
            f"no single producer {text!r}", f"there are: {_producer_labels(producers.values())}"
        )
    return matches[0]


def _find_judge(producers: Mapping[str, Producer], text: str) -> Producer:
    graders = {key: producer for key, producer in producers.items() if _is_judge(producer)}
    if text:
        return _find_producer(graders, text)
    if len(graders) != 1:
        raise RequestError(
            "captioners are compared by the grades of one judge",
            f"there are: {_producer_labels(graders.values())}; give --judge",
        )
    return next(iter(graders.values()))


def _producer_labels(producers: Iterable[Producer]) -> str:
    return (
        "; ".join(f"{producer.maker_id} ({producer.annotator}, {producer.model})" for producer in producers)
        or "none"
    )


def _read_sides(
    stores: Stores, sides: Sequence[Producer], judge: Producer | None, where: str
) -> list[dict[Segment, bool]]:
    """Whether the caption of each segment is accepted, by side."""
    accepted: list[dict[Segment, bool]] = [{} for _ in sides]
    maker_ids = {producer.maker_id for producer in sides} | ({judge.maker_id} if judge else set())
    for episode_ids in stores.tables.episodes.id_batches(where):
        read = stores.annotations.find_annotations(episode_ids, maker_ids=sorted(maker_ids))
        annotations = keep_newest_annotations(read)
        for side, producer in zip(accepted, sides, strict=True):
            side.update(_accepted_segments(annotations, producer, judge))
    return accepted


def _accepted_segments(
    annotations: Sequence[Annotation], producer: Producer, judge: Producer | None
) -> Iterator[tuple[Segment, bool]]:
    """Segments with a grade; of several captions of a segment the last one counts."""
    caption_ids = {item.annotation_id for item in annotations if item.maker_id == producer.maker_id}
    grader = judge or producer
    for item in annotations:
        is_grade = item.maker_id == grader.maker_id and item.name == grader.annotator
        if is_grade and (judge is None or item.subject in caption_ids):
            segment = item.episode_id, item.start_seconds, item.stop_seconds
            yield segment, item.value[_ACCEPTABLE] is True


def _compare_shared_segments(
    first: dict[Segment, bool], second: dict[Segment, bool], seed: int
) -> PairedDifference:
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise RequestError(
            "no segment was graded on both sides", "grade the captions of both with `ares annotate grade`"
        )
    return compare_paired(
        [first[key] for key in shared], [second[key] for key in shared], [key[0] for key in shared], seed
    )
