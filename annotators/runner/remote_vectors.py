"""Vectors that stay on the workers of an engine: they are written there, and the driver sees only in which files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from annotators.base import Annotator, FrameVectors, Outcome, PaidFailure, Result, Work, outcome_cost
from annotators.runner.signals import read_signals
from ares.errors import AresError, ModelError, StoreError
from ares.jobs import KeptValue, ValueKeeper, WorkerPool
from ares.process_tuning import pickled_by_slots

if TYPE_CHECKING:
    from ares.store import Stores
    from ares.store.vectors import VectorFragments

# Vectors that are lost so often with the machines that hold them are made no more.
_MOST_LOSSES = 10


@pickled_by_slots
@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteResult(Result):
    """A result whose vectors stay on a worker until they are written.

    Attributes:
        kept: The vectors, on the worker.
        vector_count: How many vectors it has.
        work: The work that it is of, with frames that are not decoded.
        workers: The workers that can write its vectors.
    """

    kept: KeptValue
    vector_count: int
    work: Work | None = None
    workers: AnnotatorWorkers | None = None


@dataclass(frozen=True, slots=True)
class VectorRequest:
    """Vectors of results, for a worker to write."""

    kept: Sequence[KeptValue]


@dataclass(frozen=True, slots=True)
class VectorReply:
    """What a worker has written.

    Attributes:
        fragments: The files, by space.
        lost: Positions in the request of results whose vectors are lost.
    """

    fragments: Mapping[str, VectorFragments]
    lost: Sequence[int]


@dataclass(frozen=True, slots=True)
class WrittenVectors:
    """Vectors of results, in files that belong to no version yet.

    Attributes:
        results: The results, with the cost of what had to be made again.
        failures: Errors of those whose vectors were lost and could not be made again, by number of the result.
        fragments: The files, by space.
    """

    results: Sequence[Result]
    failures: Mapping[int, AresError]
    fragments: Mapping[str, Sequence[VectorFragments]]


def process_on_worker(
    annotator: Annotator, stores: Stores, keeper: ValueKeeper, batch: Sequence[Any]
) -> Sequence[Any]:
    """What a worker does: annotate works, whose signals it reads itself, or write vectors that workers have kept.

    Args:
        annotator: The annotator of the worker.
        stores: Stores of the workspace, opened there.
        keeper: Keeps vectors until a worker writes them.
        batch: Works, or requests.

    Returns:
        An outcome per work, without vectors, or a reply per request.
    """
    if isinstance(batch[0], VectorRequest):
        return [_write(stores, keeper, request) for request in batch]
    works = _with_signals(stores, batch) if annotator.needs_signals else batch
    return _keep_vectors(annotator.process(works), annotator.space, keeper)


@dataclass(frozen=True, slots=True)
class AnnotatorWorkers:
    """The workers of one annotator.

    Attributes:
        pool: Runs `process_on_worker`.
        batch_size: Most works in one call.
    """

    pool: WorkerPool[Any, Any]
    batch_size: int

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One outcome per work, in order; vectors stay on the worker."""
        outcomes = self.pool.map(works)
        return [self._attach(outcome, work) for outcome, work in zip(outcomes, works, strict=True)]

    def _attach(self, outcome: Outcome, work: Work) -> Outcome:
        if not isinstance(outcome, RemoteResult):
            return outcome
        return replace(outcome, workers=self, work=replace(work, frames=work.frames.undecoded()))

    def write(self, results: Sequence[RemoteResult]) -> WrittenVectors:
        """Have vectors written by a worker; those that are lost with a machine are made again.

        Raises:
            StoreError: They cannot be written.
        """
        current: dict[int, RemoteResult] = dict(enumerate(results))
        failures: dict[int, AresError] = {}
        fragments: dict[str, list[VectorFragments]] = {}
        waiting = list(current)
        for _ in range(_MOST_LOSSES):
            reply = self._request([current[number].kept for number in waiting])
            for space, written in reply.fragments.items():
                fragments.setdefault(space, []).append(written)
            lost = [waiting[position] for position in reply.lost]
            waiting = self._make_again(lost, current, failures)
            if not waiting:
                return WrittenVectors(list(current.values()), failures, fragments)
        raise StoreError(f"vectors were lost {_MOST_LOSSES} times with the machines that held them")

    def _request(self, kept: Sequence[KeptValue]) -> VectorReply:
        (reply,) = self.pool.map([VectorRequest(kept)])
        if isinstance(reply, AresError):
            raise StoreError(f"vectors cannot be written by a worker: {reply.reason}", reply.detail)
        answer: VectorReply = reply
        return answer

    def _make_again(
        self, lost: Sequence[int], current: dict[int, RemoteResult], failures: dict[int, AresError]
    ) -> list[int]:
        """Work again on results that have lost their vectors; returns those that have vectors to write now."""
        works = [(number, work) for number in lost if (work := current[number].work)]
        for start in range(0, len(works), self.batch_size):
            chunk = works[start : start + self.batch_size]
            for (number, _), outcome in zip(chunk, self.process([work for _, work in chunk]), strict=True):
                current[number] = _after_attempt(current[number], outcome)
                if not isinstance(outcome, RemoteResult):
                    failures[number] = _error(outcome)
        return [number for number in lost if number not in failures]


def _after_attempt(result: RemoteResult, outcome: Outcome) -> RemoteResult:
    """The result with the vectors of another attempt, if it has any, and what both have cost."""
    result = replace(result, paid=result.cost + outcome_cost(outcome))
    if not isinstance(outcome, RemoteResult):
        return result
    return replace(result, kept=outcome.kept)


def _error(outcome: Outcome) -> AresError:
    if isinstance(outcome, Result):
        return ModelError("vectors were lost with a worker, and another attempt gave none")
    return outcome.error if isinstance(outcome, PaidFailure) else outcome


def _with_signals(stores: Stores, works: Sequence[Work]) -> list[Work]:
    signals = read_signals(stores, [work.episode.episode_id for work in works])
    return [replace(work, trajectory=signals.get(work.episode.episode_id)) for work in works]


def _keep_vectors(outcomes: Sequence[Outcome], space: str, keeper: ValueKeeper) -> list[Outcome]:
    """The outcomes without their vectors, each with its space, which are kept here until a worker fetches them."""
    results = {
        index: outcome
        for index, outcome in enumerate(outcomes)
        if isinstance(outcome, Result) and outcome.vectors
    }
    if not results:
        return list(outcomes)
    vectors = [
        [replace(rows, space=rows.space or space) for rows in result.vectors] for result in results.values()
    ]
    kept = dict(zip(results, keeper.keep(vectors), strict=True))
    return [
        _without_vectors(results[index], kept[index]) if index in kept else outcome
        for index, outcome in enumerate(outcomes)
    ]


def _without_vectors(result: Result, kept: KeptValue) -> RemoteResult:
    return RemoteResult(
        annotations=result.annotations,
        paid=result.paid,
        kept=kept,
        vector_count=sum(len(rows.seconds) for rows in result.vectors),
    )


def _write(stores: Stores, keeper: ValueKeeper, request: VectorRequest) -> VectorReply:
    spaces: dict[str, list[FrameVectors]] = {}
    vectors = keeper.fetch(request.kept)
    for rows in (rows for result in vectors if result is not None for rows in result):
        spaces.setdefault(rows.space, []).append(rows)
    fragments = {space: stores.tables.vectors(space).write_fragments(rows) for space, rows in spaces.items()}
    # Only now: a worker that dies before has its work done by another, which fetches them again.
    keeper.forget(request.kept)
    return VectorReply(fragments, [position for position, result in enumerate(vectors) if result is None])
