"""When false texts are put to a judge: after its first captions on a dataset, then one for every 25 captions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from ares.annotation import Cost
from ares.rubric import BATTERY, CAPTIONS_PER_CONTROL, read_controls, read_tripwires
from ares.store import producer_column, quote_literal
from ares_annotators.grade.battery import Control, ControlMaker, SeenCaption
from ares_annotators.grade.control_grading import grade_controls

if TYPE_CHECKING:
    from ares.store import Stores
    from ares_annotators.base import CameraSeconds, Subject
    from ares_annotators.grade.grading import Grader


# Captions whose grades a battery waits for: what captioner and judge confuse shows in them.
_CAPTIONS_BEFORE = 32
# Documents by "maker_id/dataset": since when a process puts the battery to a judge. One that was killed does not come
# back: after an hour another may.
_BATTERIES, _LEASE_SECONDS = "judge_batteries", 3_600


@dataclass(slots=True)
class _DatasetState:
    """How far a judge is on a dataset."""

    graded: int
    is_tested: bool
    seen: list[SeenCaption] = field(default_factory=list)


class ControlSchedule:
    """Puts the controls of a run to its judge; safe to use from threads.

    Args:
        stores: Stores of the workspace.
        grader: The judge with its rubric.
        select_frames: The frames of a caption that the judge gets.
    """

    def __init__(
        self, stores: Stores, grader: Grader, select_frames: Callable[[Subject], CameraSeconds]
    ) -> None:
        self._stores, self._grader, self._select_frames = stores, grader, select_frames
        self._states: dict[str, _DatasetState] = {}
        self._lock = threading.Lock()

    def grade_due(self, seen: Sequence[SeenCaption]) -> Cost:
        """Grade the batteries and single controls that are due after some captions were graded; what they have cost."""
        by_dataset: dict[str, list[SeenCaption]] = {}
        for caption in seen:
            by_dataset.setdefault(caption.dataset, []).append(caption)
        paid = (self._grade(dataset, self._take(dataset, own)) for dataset, own in by_dataset.items())
        return sum(paid, Cost())

    def finish(self) -> Cost:
        """Grade the batteries that are due at the end of a run with few captions; what they have cost."""
        with self._lock:
            waiting = {name: state for name, state in self._states.items() if state.seen}
            batteries = {name: self._draw_battery(name, state) for name, state in waiting.items()}
        return sum((self._grade(dataset, battery) for dataset, battery in batteries.items()), Cost())

    def _grade(self, dataset: str, controls: Sequence[Control]) -> Cost:
        """Grade false texts, and keep what came of them with their episodes; what they have cost."""
        if not controls:
            return Cost()
        annotations, paid = grade_controls(self._grader, controls)
        self._stores.annotations.append(annotations)
        rows = read_controls(annotation.value for annotation in annotations)
        if 2 * sum(row.is_of_battery for row in rows) < sum(control.is_of_battery for control in controls):
            self._give_back(dataset)
        return paid

    def _take(self, dataset: str, seen: Sequence[SeenCaption]) -> list[Control]:
        """The battery or the single controls that are due after some captions of a dataset were graded."""
        with self._lock:
            state = self._state(dataset)
            before, state.graded = state.graded, state.graded + len(seen)
            if state.is_tested:
                count = state.graded // CAPTIONS_PER_CONTROL - before // CAPTIONS_PER_CONTROL
                maker = self._make(dataset, seen, f"{before}")
                return [control for _ in range(count) for control in maker.draw_single()]
            # Kept captions hold no pixels: their frames are decoded again.
            state.seen += map(self._without_pixels, seen)
            return self._draw_battery(dataset, state) if len(state.seen) >= _CAPTIONS_BEFORE else []

    def _give_back(self, dataset: str) -> None:
        """Let the battery be put again to a judge that could not be called."""
        with self._lock:
            self._states[dataset].is_tested = False
            self._stores.annotations.drop_documents(_BATTERIES, [self._key(dataset)])

    def _draw_battery(self, dataset: str, state: _DatasetState) -> list[Control]:
        """The battery, unless another process has it."""
        seen, state.seen, state.is_tested = state.seen, [], True
        return self._make(dataset, seen, "battery").draw_battery() if self._claim(dataset) else []

    def _claim(self, dataset: str) -> bool:
        log, key, now = self._stores.annotations, self._key(dataset), time.time()
        lease = log.get_document(_BATTERIES, key)
        if isinstance(lease, dict) and now - float(str(lease["time"])) > _LEASE_SECONDS:
            log.drop_documents(_BATTERIES, [key])
        return log.claim_document(_BATTERIES, key, {"time": now})

    def _key(self, dataset: str) -> str:
        return f"{self._grader.producer.maker_id}/{dataset}"

    def _make(self, dataset: str, seen: Sequence[SeenCaption], seed: str) -> ControlMaker:
        random = Random(f"controls {self._grader.producer.maker_id} {dataset} {seed}")
        return ControlMaker(seen, self._grader.verbs, random)

    def _without_pixels(self, caption: SeenCaption) -> SeenCaption:
        work = caption.text.work
        frames = work.frames.elsewhere(self._select_frames(work.subject))
        return replace(caption, text=replace(caption.text, work=replace(work, frames=frames)))

    def _state(self, dataset: str) -> _DatasetState:
        if dataset not in self._states:
            tripwire = (
                read_tripwires(self._stores.annotations).get(self._grader.producer.maker_id, {}).get(dataset)
            )
            # With fewer graded texts the battery was given back.
            is_tested = tripwire is not None and 2 * int(str(tripwire["controls"])) >= sum(BATTERY.values())
            self._states[dataset] = _DatasetState(self._count_graded(dataset), is_tested)
        return self._states[dataset]

    def _count_graded(self, dataset: str) -> int:
        """Captions that this judge has graded in the dataset, or texts of segments in all of them."""
        column, tables = producer_column(self._grader.producer.annotator), self._stores.tables
        of_judge = f"{column} = {quote_literal(self._grader.producer.maker_id)}"
        if column in tables.episodes.columns():
            return tables.episodes.count(f"dataset = {quote_literal(dataset)} AND {of_judge}")
        return tables.segments.count(of_judge) if column in tables.segments.columns() else 0
