"""The annotator `stillness`: the share of steps in which no dimension of the state moves."""

from collections.abc import Sequence

from ares.annotation import Column, Producer
from ares.errors import SourceError
from ares.store import Stores
from ares_annotators.base import Options, Outcome, Result, Work, new_annotation

COLUMN = Column(name="still_share", type="float64", meaning="Share of steps without motion.")


class StillnessAnnotator:
    """Measures stillness; ARES makes one for each run."""

    needs_signals = True

    def __init__(self, options: Options, stores: Stores) -> None:
        self.producer = Producer(annotator="stillness", version="1", columns=(COLUMN,))

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One outcome for each work, in order."""
        return [self._measure(work) for work in works]

    def _measure(self, work: Work) -> Outcome:
        import numpy as np

        if work.trajectory is None or work.trajectory.state is None:
            return SourceError("stillness needs a state", work.episode.key)
        is_still = (np.diff(work.trajectory.state.values, axis=0) == 0).all(axis=1)
        value = {"still_share": float(is_still.mean())}
        return Result(annotations=[new_annotation(work, self.producer, value)])
