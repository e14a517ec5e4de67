"""Writer: what a run made, stored in large batches: vectors first, then the facts that say they are there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotators.base import Bundle, FrameVectors, Result
from annotators.stage import Running
from ares.annotation import Annotation, Cost, Maker
from ares.checks.unfinished import UNFINISHED
from ares.errors import StoreError
from ares.jobs.ledger import Ledger
from ares.store.codec import Refused

if TYPE_CHECKING:
    from ares.workspace import Workspace

_FACTS_PER_WRITE = 2_000
_VECTORS_PER_WRITE = 50_000
_SECONDS_PER_WRITE = 20.0
# A day's run makes thousands of writes; in between, the vectors are kept few files. What the run reads from is not
# touched.
_WRITES_PER_TIDYING = 50


class Writer:
    """Collects results and stores them; a killed run loses at most what was collected.

    Args:
        ws: Where to.
        running: The annotators of the run.
    """

    def __init__(self, ws: Workspace, running: Sequence[Running]) -> None:
        self._ws = ws
        self._running = {one.name: one for one in running}
        scopes = {one.name: f"{one.name}/{one.annotator.maker.maker_id}" for one in running}
        self._ledgers = {name: Ledger(ws.annotations, scope) for name, scope in scopes.items()}
        self._results: list[tuple[str, Result]] = []
        self._vectors = 0
        self._written = time.monotonic()
        self._marked: set[str] = set()
        self._writes = 0

    def take(self, bundles: list[Bundle]) -> None:
        """Accept bundles that have passed every stage."""
        for bundle in bundles:
            for name, results in bundle.made.items():
                self._results.extend((name, result) for result in results)
                self._vectors += sum(len(rows.seconds) for result in results for rows in result.vectors)
        waited = time.monotonic() - self._written > _SECONDS_PER_WRITE
        if waited or len(self._results) >= _FACTS_PER_WRITE or self._vectors >= _VECTORS_PER_WRITE:
            self.flush()

    def flush(self) -> None:
        """Store what was collected, count it as kept, and bring the failure ledger up to date."""
        results, self._results, self._vectors = self._results, [], 0
        for name, running in self._running.items():
            mine = [result for owner, result in results if owner == name]
            self._store(running, mine)
            failed, running.failed = running.failed, {}
            subjects = {fact.subject for fact in _facts(mine)}
            self._ledgers[name].record(failed, subjects - failed.keys())
        self._writes += 1
        if self._marked and self._writes % _WRITES_PER_TIDYING == 0:
            self._ws.tables.optimize([f"vectors_{space}" for space in self._marked])
        self._written = time.monotonic()

    def close(self) -> None:
        """Say that the vector tables are whole: every vector has its fact."""
        self._ws.annotations.drop(UNFINISHED, self._marked)

    def _store(self, running: Running, results: list[Result]) -> None:
        spaces: dict[str, list[FrameVectors]] = {}
        for rows in (rows for result in results for rows in result.vectors):
            spaces.setdefault(rows.space or running.annotator.space, []).append(rows)
        for space, vectors in spaces.items():
            self._add_vectors(space, running.annotator.maker, vectors)
        refused = self._append(results)
        for at, result in enumerate(results):
            if at in refused:
                running.fail(refused[at], result.annotations[0])
            else:
                running.report.keep(sum((fact.cost for fact in result.annotations), Cost()))

    def _append(self, results: Sequence[Result]) -> dict[int, StoreError]:
        """Store the facts of results. Returns those that no store can hold, by their position, with the reason."""
        owners = [at for at, result in enumerate(results) for _ in result.annotations]
        try:
            if owners:
                self._ws.annotations.append(_facts(results))
        except Refused as error:
            return {owners[int(at)]: why for at, why in error.cases.items()}
        return {}

    def _add_vectors(self, space: str, maker: Maker, vectors: list[FrameVectors]) -> None:
        if space not in self._marked:
            owner = {"annotator": maker.annotator, "model": maker.model}
            self._ws.annotations.put(UNFINISHED, {space: owner})
            self._marked.add(space)
        self._ws.tables.vectors(space).add(vectors)


def _facts(results: Sequence[Result]) -> list[Annotation]:
    return [fact for result in results for fact in result.annotations]
