"""Stores the results of a run in large batches: vectors first, then the annotations that record them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.base import FrameVectors, Result
from annotators.runner.annotator_run import AnnotatorRun, EpisodeBundle, make_failure_scope
from annotators.runner.remote import RemoteResult, UncommittedResultVectors
from ares.annotation import Annotation, Maker
from ares.doctor import UNFINISHED_SPACES
from ares.errors import RequestError, StoreError
from ares.jobs import FailureLog
from ares.store import VALUE_KINDS, UnstorableError, read_history

if TYPE_CHECKING:
    from ares.store import Stores


_ANNOTATIONS_PER_WRITE = 2_000
_VECTORS_PER_WRITE = 50_000
_SECONDS_PER_WRITE = 20.0
# A day's run makes thousands of writes: vector tables are compacted in between. The tables that it reads are not.
_WRITES_PER_COMPACTION = 50
# Writes of vectors that workers do at the same time, and those that may wait in memory.
_WRITING_WORKERS, _MOST_PENDING = 4, 8


def refuse_columns_of_people(stores: Stores, makers: Sequence[Maker]) -> None:
    """Raise RequestError where a maker fills a column that people have set values of."""
    actions = read_history(stores.annotations).effective(VALUE_KINDS)
    own = {str(action.details["column"]) for action in actions}
    for maker in makers:
        if clashes := own.intersection(column.name for column in maker.columns):
            raise RequestError(
                f"{maker.annotator} fills a column that you have set",
                f"{min(clashes)!r}; `ares undo NUMBER` takes it back, and yours can have another name",
            )


@dataclass(frozen=True, slots=True)
class _PendingWrite:
    """Results that are stored once workers have written their vectors.

    Attributes:
        results: Results with the name of their annotator.
        vectors: What the workers write, by annotator.
    """

    results: Sequence[tuple[str, Result]]
    vectors: Mapping[str, Future[UncommittedResultVectors]]

    @property
    def is_written(self) -> bool:
        """Whether all vectors have been written."""
        return all(future.done() for future in self.vectors.values())


class AnnotationWriter:
    """Collects results and stores them; a killed run loses at most what was collected.

    Args:
        stores: Stores of the workspace.
        tasks: The annotators of the run.
    """

    def __init__(self, stores: Stores, tasks: Sequence[AnnotatorRun]) -> None:
        self._stores = stores
        self._tasks = {task.name: task for task in tasks}
        self._failure_logs = {
            task.name: FailureLog(stores.annotations, make_failure_scope(task.annotator.maker))
            for task in tasks
        }
        self._results: list[tuple[str, Result]] = []
        self._pending: deque[_PendingWrite] = deque()
        self._executor = ThreadPoolExecutor(_WRITING_WORKERS, thread_name_prefix="vectors")
        self._vector_count = 0
        self._has_remote_vectors = False
        self._written_at = time.monotonic()
        self._unfinished_spaces: set[str] = set()
        self._writes = 0

    def add(self, bundles: list[EpisodeBundle]) -> None:
        """Accept bundles that have passed every stage."""
        for bundle in bundles:
            for name, results in bundle.results.items():
                self._results.extend((name, result) for result in results)
                for result in results:
                    self._count_vectors(result)
        if self._is_due():
            self._begin_write()
        while self._pending and (self._pending[0].is_written or len(self._pending) > _MOST_PENDING):
            self._finish_write()

    def flush(self) -> None:
        """Store the collected results, count them as kept, and update the failure log."""
        self._begin_write()
        while self._pending:
            self._finish_write()

    def _count_vectors(self, result: Result) -> None:
        if isinstance(result, RemoteResult):
            self._has_remote_vectors = True
            self._vector_count += result.vector_count
        self._vector_count += sum(len(rows.seconds) for rows in result.vectors)

    def _is_due(self) -> bool:
        if (
            time.monotonic() - self._written_at > _SECONDS_PER_WRITE
            or self._vector_count >= _VECTORS_PER_WRITE
        ):
            return True
        # Each worker that writes makes a file: few results are not worth one.
        return len(self._results) >= (
            _VECTORS_PER_WRITE if self._has_remote_vectors else _ANNOTATIONS_PER_WRITE
        )

    def _begin_write(self) -> None:
        """Have workers write the vectors that they have of the collected results."""
        results, self._results, self._vector_count, self._has_remote_vectors = self._results, [], 0, False
        remote: dict[str, list[RemoteResult]] = {}
        for name, result in results:
            if isinstance(result, RemoteResult):
                remote.setdefault(name, []).append(result)
        vectors = {
            name: self._executor.submit(workers.write, task_results)
            for name, task_results in remote.items()
            if (workers := task_results[0].workers)
        }
        self._pending.append(_PendingWrite(results, vectors))
        self._written_at = time.monotonic()

    def _finish_write(self) -> None:
        """Store the oldest results of which workers have written the vectors, or write them now."""
        write = self._pending.popleft()
        for name, task in self._tasks.items():
            task_results = [result for owner, result in write.results if owner == name]
            if name in write.vectors:
                task_results = self._append_written(task, task_results, write.vectors[name].result())
            self._store(task, task_results)
            failures, task.failures = task.failures, {}
            subjects = {annotation.subject for annotation in _collect_annotations(task_results)}
            self._failure_logs[name].record(failures, subjects - failures.keys())
        self._writes += 1
        if self._unfinished_spaces and self._writes % _WRITES_PER_COMPACTION == 0:
            self._stores.tables.optimize([f"vectors_{space}" for space in self._unfinished_spaces])

    def _append_written(
        self, task: AnnotatorRun, results: Sequence[Result], written: UncommittedResultVectors
    ) -> list[Result]:
        """Make what workers have written part of the tables; returns the results that have their vectors now."""
        for space, fragments in written.fragments.items():
            self._record_unfinished(space, task.annotator.maker)
            self._stores.tables.vectors(space).append(fragments)
        for number, error in written.failures.items():
            task.add_failure(error, written.results[number])
        remote = iter(enumerate(written.results))
        complete: list[Result] = []
        for result in results:
            number, current = next(remote) if isinstance(result, RemoteResult) else (-1, result)
            if number not in written.failures:
                complete.append(current)
        return complete

    def close(self) -> None:
        """Mark the vector tables as complete: every vector has its annotation."""
        self._executor.shutdown()
        self._stores.annotations.drop_documents(UNFINISHED_SPACES, self._unfinished_spaces)

    def _store(self, task: AnnotatorRun, results: list[Result]) -> None:
        spaces: dict[str, list[FrameVectors]] = {}
        for rows in (rows for result in results for rows in result.vectors):
            spaces.setdefault(rows.space or task.annotator.space, []).append(rows)
        for space, vectors in spaces.items():
            self._add_vectors(space, task.annotator.maker, vectors)
        errors = self._append(results)
        for index, result in enumerate(results):
            if index in errors:
                task.add_failure(errors[index], result)
            else:
                task.add_kept(result)

    def _append(self, results: Sequence[Result]) -> dict[int, StoreError]:
        """Store the annotations of results. Returns the errors of those that no store can hold, by result index."""
        result_indices = [index for index, result in enumerate(results) for _ in result.annotations]
        try:
            if result_indices:
                self._stores.annotations.append(_collect_annotations(results))
        except UnstorableError as error:
            return {result_indices[int(index)]: cause for index, cause in error.errors.items()}
        return {}

    def _add_vectors(self, space: str, maker: Maker, vectors: list[FrameVectors]) -> None:
        self._record_unfinished(space, maker)
        self._stores.tables.vectors(space).add(vectors)

    def _record_unfinished(self, space: str, maker: Maker) -> None:
        """Store that vectors of a space may lack their annotations, before the first of them are written."""
        if space not in self._unfinished_spaces:
            owner = {"annotator": maker.annotator, "model": maker.model}
            self._stores.annotations.put_documents(UNFINISHED_SPACES, {space: owner})
            self._unfinished_spaces.add(space)


def _collect_annotations(results: Sequence[Result]) -> list[Annotation]:
    return [annotation for result in results for annotation in result.annotations]
