"""A measurement in use: it asks a person about what was drawn at random, and counts what all have answered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares.errors import RequestError
from ares.review import (
    USUAL_SHARE,
    Drawing,
    MeasuredShare,
    Measurements,
    QueueItem,
    ReviewQueue,
    check_share,
    count_answers,
    draw_measurement,
    find_answered,
    find_drawing,
    find_measured_question,
    format_share,
    person_settings,
)

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.store import Stores


class Measurement:
    """A measurement in use: asks one person, shows clips, and counts what all have answered.

    Args:
        stores: Stores of the workspace.
        dataset: The dataset.
        question: "caption", "segment", "success", "instruction", or the column of an attribute.
        at_least: The share that is to be shown, above 0 and below 1.
        person: Who answers.
        drawing: What is asked; None for the last one, or a new one where more was graded since.

    Raises:
        RequestError: There is no such dataset or question, nothing to measure, or the share or the name is none.
    """

    def __init__(
        self,
        stores: Stores,
        dataset: str,
        question: str = "caption",
        *,
        at_least: float,
        person: str,
        drawing: Drawing | None = None,
    ) -> None:
        check_share(at_least)
        self.at_least, self.person = at_least, str(person_settings(person)["person"])
        self._stores, self._dataset = stores, dataset
        self._question = find_measured_question(question)
        self._drawing = drawing
        self._queue: ReviewQueue | None = None
        self._shown: set[tuple[str, int]] = set()
        self._unseen: set[int] = set()
        share = self.progress if drawing else self.share
        if not share.answers and share.best_bound() < at_least:
            possible = count_of(share.count_possible(), "answer")
            most = f"{possible} without an error show {format_share(share.best_bound())}"
            raise RequestError(f"{format_share(at_least)} cannot be shown", most)

    @property
    def share(self) -> MeasuredShare:
        """What the answers of all people say now."""
        return self._read().read(self._dataset).share

    @property
    def progress(self) -> MeasuredShare:
        """The answers of all people to what is asked, without what the tables say; quicker than `share`."""
        return count_answers(self._stores, self._question, self.drawing)[0]

    @property
    def drawing(self) -> Drawing:
        """What is asked; it is drawn when it is first needed, and again where more was graded since."""
        if self._drawing is None:
            self._drawing = self._find_drawing()
        return self._drawing

    @property
    def queue(self) -> ReviewQueue:
        """The queue of the drawing."""
        if self._queue is None:
            self._queue = ReviewQueue(self._stores, self.drawing.queue.name)
        return self._queue

    def next(self) -> QueueItem | None:
        """What the person is asked next; None where the measurement is finished, or nothing is left.

        An item that was answered without its clip is asked once more by another `Measurement`, behind all others.
        """
        item = None if self.progress.is_finished(self.at_least) else self.queue.next(self.person)
        return None if item and item.item in self._unseen else item

    def clips(self, item: QueueItem) -> list[Path]:
        """Videos of an item, one for each camera, to be opened; answers count from then on."""
        from ares.media import browser_video

        episode = self._stores.tables.episodes.get_episode(item.episode_id)
        paths = [
            browser_video(camera.media, "h264", self._stores.media_cache) for camera in episode.good_cameras
        ]
        if paths:
            self._shown.add((item.queue, item.item))
        return paths

    def answer(self, item: QueueItem, verdict: str, **fields: Any) -> Annotation:
        """Store what the person says of an item: "met", "unmet" or "unsure"; of outcomes "success" or "failure".

        An answer before `clips` were asked for is kept, and does not count.

        Raises:
            RequestError: The answer is none that can be given.
        """
        fields = {"shown": (item.queue, item.item) in self._shown, **fields}
        stored = self.queue.answer(item, self.person, verdict, **fields)
        self._unseen |= set() if fields["shown"] else {item.item}
        return stored

    def undo(self) -> QueueItem | None:
        """Take the last answer of the person back, and ask it again; None where nothing is left to take back."""
        return self.queue.undo(self.person)

    def __str__(self) -> str:
        return f"{self._dataset}: {self.share}"

    def _read(self) -> Measurements:
        measurements = Measurements(self._stores, self._question)
        if self._dataset not in measurements.populations:
            names = ", ".join(measurements.populations)
            remedy = f"datasets with some: {names}" if names else "`ares annotate` makes them"
            number = measurements.subjects.rows["dataset"].to_pylist().count(self._dataset)
            if number and self._question.refused:
                remedy = f"it has {number:,}, none accepted; `ares annotate grade` judges those of models"
            raise RequestError(f"dataset {self._dataset!r} has no {self._question.what[0]}", remedy)
        return measurements

    def _find_drawing(self) -> Drawing:
        measurements = self._read()
        population, known = measurements.populations[self._dataset], measurements.drawings(self._dataset)
        last = known[-1] if known else None
        # Of what no judge graded only the number says that there is more.
        is_more = last is not None and not last.makers.judge and population.accepted > last.accepted
        if last is not None and population.newest <= last.time and not is_more:
            return last
        answered = find_answered(self._stores, self._question, known)
        subjects = measurements.subjects
        return draw_measurement(
            self._stores, subjects, self._dataset, population, self.person, answered, last
        )


def open_measurement(stores: Stores, queue: str, person: str) -> Measurement | None:
    """The measurement that a queue was drawn for; None for another queue."""
    drawing = find_drawing(ReviewQueue(stores, queue).queue)
    if drawing is None:
        return None
    dataset, question = drawing.dataset, drawing.question
    return Measurement(stores, dataset, question, at_least=USUAL_SHARE, person=person, drawing=drawing)
