"""Vectors that stay on the workers of an engine: they are written there, and the driver sees only in which files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from annotators.base import Annotator, FrameVectors, Outcome, PaidFailure, Result, Work, outcome_cost
from annotators.runner.signals import read_signals
from ares.errors import AresError, ModelError, StoreError
from ares.jobs import WorkerPool
from ares.process_tuning import pickled_by_slots

if TYPE_CHECKING:
    from ares.store import Stores
    from ares.store.vectors import VectorFragments

# The vectors of every result of one call.
CallVectors = Sequence[Sequence[FrameVectors]]
FetchVectors = Callable[[], CallVectors | None]
PutVectors = Callable[[CallVectors], FetchVectors]

# Vectors that are lost so often with the machines that hold them are made no more.
_MOST_LOSSES = 10


@pickled_by_slots
@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteResult(Result):
    """A result whose vectors stay on a worker until they are written.

    Attributes:
        fetch: Returns the vectors of the call that made it, on any worker; None once they are lost.
        position: Which of the results of that call it is.
        vector_count: How many vectors it has.
        work: The work that it is of, with frames that are not decoded.
        workers: The workers that can write its vectors.
    """

    fetch: FetchVectors
    position: int
    vector_count: int
    work: Work | None = None
    workers: AnnotatorWorkers | None = None


@dataclass(frozen=True, slots=True)
class VectorRequest:
    """Vectors for a worker to write: of each call, the positions of some of its results."""

    calls: Sequence[tuple[FetchVectors, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class VectorReply:
    """What a worker has written.

    Attributes:
        fragments: The files, by space.
        lost_calls: Which of the calls of the request have lost their vectors.
    """

    fragments: Mapping[str, VectorFragments]
    lost_calls: frozenset[int]


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
    annotator: Annotator, stores: Stores, put: PutVectors, batch: Sequence[Any]
) -> Sequence[Any]:
    """What a worker does: annotate works, whose signals it reads itself, or write vectors that workers have kept.

    Args:
        annotator: The annotator of the worker.
        stores: Stores of the workspace, opened there.
        put: Keeps a value where every worker can fetch it.
        batch: Works, or requests.

    Returns:
        An outcome per work, without vectors, or a reply per request.
    """
    if isinstance(batch[0], VectorRequest):
        return [_write(stores, request) for request in batch]
    works = _with_signals(stores, batch) if annotator.needs_signals else batch
    return _keep_vectors(annotator.process(works), annotator.space, put)


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
            calls = _group_by_call(current, waiting)
            reply = self._request([(fetch, positions) for fetch, positions, _ in calls])
            for space, written in reply.fragments.items():
                fragments.setdefault(space, []).append(written)
            lost = [number for index in sorted(reply.lost_calls) for number in calls[index][2]]
            waiting = self._make_again(lost, current, failures)
            if not waiting:
                return WrittenVectors(list(current.values()), failures, fragments)
        raise StoreError(f"vectors were lost {_MOST_LOSSES} times with the machines that held them")

    def _request(self, calls: Sequence[tuple[FetchVectors, Sequence[int]]]) -> VectorReply:
        (reply,) = self.pool.map([VectorRequest(calls)])
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
    return replace(result, fetch=outcome.fetch, position=outcome.position)


def _error(outcome: Outcome) -> AresError:
    if isinstance(outcome, Result):
        return ModelError("vectors were lost with a worker, and another attempt gave none")
    return outcome.error if isinstance(outcome, PaidFailure) else outcome


def _group_by_call(
    results: Mapping[int, RemoteResult], numbers: Sequence[int]
) -> list[tuple[FetchVectors, list[int], list[int]]]:
    """Results by the call that made them: how its vectors are fetched, their positions there, and their numbers."""
    calls: dict[int, tuple[FetchVectors, list[int], list[int]]] = {}
    for number in numbers:
        result = results[number]
        # The results of a call share the object that fetches.
        _, positions, members = calls.setdefault(id(result.fetch), (result.fetch, [], []))
        positions.append(result.position)
        members.append(number)
    return list(calls.values())


def _with_signals(stores: Stores, works: Sequence[Work]) -> list[Work]:
    signals = read_signals(stores, [work.episode.episode_id for work in works])
    return [replace(work, trajectory=signals.get(work.episode.episode_id)) for work in works]


def _keep_vectors(outcomes: Sequence[Outcome], space: str, put: PutVectors) -> list[Outcome]:
    """The outcomes without their vectors, each with its space, which are kept here until a worker fetches them."""
    vectors = [outcome.vectors if isinstance(outcome, Result) else () for outcome in outcomes]
    if not any(vectors):
        return list(outcomes)
    fetch = put([[replace(rows, space=rows.space or space) for rows in result] for result in vectors])
    return [_without_vectors(outcome, fetch, position) for position, outcome in enumerate(outcomes)]


def _without_vectors(outcome: Outcome, fetch: FetchVectors, position: int) -> Outcome:
    if not isinstance(outcome, Result) or not outcome.vectors:
        return outcome
    return RemoteResult(
        annotations=outcome.annotations,
        paid=outcome.paid,
        fetch=fetch,
        position=position,
        vector_count=sum(len(rows.seconds) for rows in outcome.vectors),
    )


def _write(stores: Stores, request: VectorRequest) -> VectorReply:
    spaces: dict[str, list[FrameVectors]] = {}
    lost: set[int] = set()
    for index, (fetch, positions) in enumerate(request.calls):
        vectors = fetch()
        if vectors is None:
            lost.add(index)
            continue
        for rows in (rows for position in positions for rows in vectors[position]):
            spaces.setdefault(rows.space, []).append(rows)
    fragments = {space: stores.tables.vectors(space).write_fragments(rows) for space, rows in spaces.items()}
    return VectorReply(fragments, frozenset(lost))
