"""When false texts are put to a judge: after its first captions on a dataset, then one for every 25 captions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from annotators.grade.battery import Control, ControlMaker, SeenCaption
from ares.rubric import BATTERY, CAPTIONS_PER_CONTROL, read_tripwires
from ares.store import producer_column, quote_literal

if TYPE_CHECKING:
    from annotators.base import CameraSeconds, Subject
    from ares.annotation import Producer
    from ares.store import Stores


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
    """Draws the controls of one judge in a run; safe to use from threads.

    Args:
        stores: Stores of the workspace.
        producer: Producer of the grades.
        select_frames: The frames of a caption that the judge gets.
        verbs: The guide of verbs.
    """

    def __init__(
        self,
        stores: Stores,
        producer: Producer,
        select_frames: Callable[[Subject], CameraSeconds],
        verbs: Mapping[str, str],
    ) -> None:
        self._stores, self._producer, self._verbs = stores, producer, verbs
        self._select_frames = select_frames
        self._states: dict[str, _DatasetState] = {}
        self._lock = threading.Lock()

    def take(self, dataset: str, seen: Sequence[SeenCaption]) -> tuple[list[Control], list[Control]]:
        """The battery and the single controls that are due after some captions of a dataset were graded.

        Args:
            dataset: The dataset.
            seen: The captions.
        """
        with self._lock:
            state = self._state(dataset)
            before, state.graded = state.graded, state.graded + len(seen)
            if state.is_tested:
                count = state.graded // CAPTIONS_PER_CONTROL - before // CAPTIONS_PER_CONTROL
                maker = self._make(dataset, seen, f"{before}")
                return [], [control for _ in range(count) for control in maker.draw_single()]
            # Kept captions hold no pixels: their frames are decoded again.
            state.seen += map(self._without_pixels, seen)
            return self._draw_battery(dataset, state) if len(state.seen) >= _CAPTIONS_BEFORE else [], []

    def finish(self) -> dict[str, list[Control]]:
        """By dataset the batteries that are due at the end of a run with few captions."""
        with self._lock:
            waiting = {name: state for name, state in self._states.items() if state.seen}
            return {name: self._draw_battery(name, state) for name, state in waiting.items()}

    def give_back(self, dataset: str) -> None:
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
        return f"{self._producer.maker_id}/{dataset}"

    def _make(self, dataset: str, seen: Sequence[SeenCaption], seed: str) -> ControlMaker:
        random = Random(f"controls {self._producer.maker_id} {dataset} {seed}")
        return ControlMaker(seen, self._verbs, random)

    def _without_pixels(self, caption: SeenCaption) -> SeenCaption:
        work = caption.text.work
        frames = work.frames.elsewhere(self._select_frames(work.subject))
        return replace(caption, text=replace(caption.text, work=replace(work, frames=frames)))

    def _state(self, dataset: str) -> _DatasetState:
        if dataset not in self._states:
            tripwire = read_tripwires(self._stores.annotations).get(self._producer.maker_id, {}).get(dataset)
            # With fewer graded texts the battery was given back.
            is_tested = tripwire is not None and 2 * int(str(tripwire["controls"])) >= sum(BATTERY.values())
            self._states[dataset] = _DatasetState(self._count_graded(dataset), is_tested)
        return self._states[dataset]

    def _count_graded(self, dataset: str) -> int:
        """Captions that this judge has graded in the dataset, or texts of segments in all of them."""
        column, tables = producer_column(self._producer.annotator), self._stores.tables
        of_judge = f"{column} = {quote_literal(self._producer.maker_id)}"
        if column in tables.episodes.columns():
            return tables.episodes.count(f"dataset = {quote_literal(dataset)} AND {of_judge}")
        return tables.segments.count(of_judge) if column in tables.segments.columns() else 0
