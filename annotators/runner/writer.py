"""Stores the results of a run in large batches: vectors first, then the annotations that record them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Producer
from ares.doctor import UNFINISHED_SPACES
from ares.errors import RequestError, StoreError
from ares.jobs import FailureLog
from ares.store import VALUE_KINDS, UnstorableError, forget_outdated, read_history
from ares_annotators.base import FrameVectors, Result
from ares_annotators.runner.annotator_run import AnnotatorRun, EpisodeBundle, make_failure_scope

if TYPE_CHECKING:
    from ares.store import Stores


_ANNOTATIONS_PER_WRITE = 2_000
_VECTORS_PER_WRITE = 50_000
_SECONDS_PER_WRITE = 20.0
# A day's run makes thousands of writes: vector tables are compacted in between. The tables that it reads are not.
_WRITES_PER_COMPACTION = 50


def refuse_columns_of_people(stores: Stores, producers: Sequence[Producer]) -> None:
    """Raise RequestError where a producer fills a column that people have set values of."""
    actions = read_history(stores.annotations).effective(VALUE_KINDS)
    user_columns = {str(action.details["column"]) for action in actions}
    for producer in producers:
        if clashes := user_columns.intersection(column.name for column in producer.columns):
            raise RequestError(
                f"{producer.annotator} fills a column that you have set",
                f"{min(clashes)!r}; `ares undo NUMBER` takes it back, and yours can have another name",
            )


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
            task.name: FailureLog(stores.annotations, make_failure_scope(task.annotator.producer))
            for task in tasks
        }
        self._results: list[tuple[str, Result]] = []
        self._vector_count = 0
        self._written_at = time.monotonic()
        self._unfinished_spaces: set[str] = set()
        self._writes = 0

    def add(self, bundles: list[EpisodeBundle]) -> None:
        """Accept bundles that have passed every stage."""
        for bundle in bundles:
            for name, results in bundle.results.items():
                self._results.extend((name, result) for result in results)
                self._vector_count += sum(len(rows.seconds) for result in results for rows in result.vectors)
        if (
            len(self._results) >= _ANNOTATIONS_PER_WRITE
            or self._vector_count >= _VECTORS_PER_WRITE
            or time.monotonic() - self._written_at > _SECONDS_PER_WRITE
        ):
            self.flush()

    def flush(self) -> None:
        """Store the collected results, count them as kept, and update the failure log."""
        results, self._results, self._vector_count = self._results, [], 0
        for name, task in self._tasks.items():
            task_results = [result for owner, result in results if owner == name]
            self._store(task, task_results)
            failures, task.failures = task.failures, {}
            subjects = {annotation.subject for annotation in _collect_annotations(task_results)}
            self._failure_logs[name].record(failures, subjects - failures.keys())
        self._writes += 1
        if self._unfinished_spaces and self._writes % _WRITES_PER_COMPACTION == 0:
            self._stores.tables.optimize([f"vectors_{space}" for space in self._unfinished_spaces])
        self._written_at = time.monotonic()

    def close(self) -> None:
        """Mark the vector tables as complete: every vector has its annotation."""
        self._stores.annotations.drop_documents(UNFINISHED_SPACES, self._unfinished_spaces)

    def _store(self, task: AnnotatorRun, results: list[Result]) -> None:
        spaces: dict[str, list[FrameVectors]] = {}
        for rows in (rows for result in results for rows in result.vectors):
            spaces.setdefault(rows.space or task.annotator.space, []).append(rows)
        for space, vectors in spaces.items():
            self._add_vectors(space, task.annotator.producer, vectors)
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
                annotations = _collect_annotations(results)
                self._stores.annotations.append(annotations)
                forget_outdated(self._stores.annotations, annotations)
        except UnstorableError as error:
            return {result_indices[int(index)]: cause for index, cause in error.errors.items()}
        return {}

    def _add_vectors(self, space: str, producer: Producer, vectors: list[FrameVectors]) -> None:
        self._record_unfinished(space, producer)
        self._stores.tables.vectors(space).add(vectors)

    def _record_unfinished(self, space: str, producer: Producer) -> None:
        """Store that vectors of a space may lack their annotations, before the first of them are written."""
        if space not in self._unfinished_spaces:
            owner = {"annotator": producer.annotator, "model": producer.model}
            self._stores.annotations.put_documents(UNFINISHED_SPACES, {space: owner})
            self._unfinished_spaces.add(space)


def _collect_annotations(results: Sequence[Result]) -> list[Annotation]:
    return [annotation for result in results for annotation in result.annotations]
