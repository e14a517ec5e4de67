"""A review queue in use: who is asked what next, by several people at once, and what they have answered."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from ares.episode import Json
from ares.errors import RequestError
from ares.review.answers import INSTRUCTION, Answer, find_subject, read_answer, store_answer, take_back
from ares.review.drawing import (
    BLOCK_ITEMS,
    ITEMS,
    QUESTIONS_OF_EPISODES,
    QUEUES,
    list_queues,
    queue_from_json,
)
from ares.review.labels import person_settings
from ares.store import ids_filter, keep_newest_annotations, recorded_columns, recorded_instruction

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.store import Stores


# Kinds of documents: seats of items, and how far a person is.
SEATS, POSITIONS = "review_seats", "review_positions"
# An item that nobody has answered for so long is free again; who answers late keeps the word.
# What is shown of an item for which no judge has named a frame.
_BEFORE_THE_END = 0.5
LEASE_SECONDS = 900.0
# Answers that the pace is measured over, and that an undo goes back.
_REMEMBERED = 50
# Items that are looked at one by one before all that are answered are read at once.
_PROBED_ITEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueItem:
    """One item as whoever is asked sees it: neither judge, producer nor what somebody else has said.

    Attributes:
        queue: Name of the queue.
        item: Position in the queue, from 0.
        seat: 0, or 1 for a second person.
        question: What is asked.
        subject_id: Id of the episode, or of the annotation with the text.
        subject_kind: "episode" or "annotation".
        episode_id: The episode.
        start_seconds: Start of the clip.
        stop_seconds: End of the clip.
        text: The text that is asked about; for an instruction that of the source.
        evidence: Seconds of the frames that decide, if a judge has named some.
        drawn: "random", "worth" or "repeat".
    """

    queue: str
    item: int
    seat: int
    question: str
    subject_id: str
    subject_kind: str
    episode_id: str
    start_seconds: float
    stop_seconds: float
    text: str
    evidence: tuple[float, ...]
    drawn: str

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {**asdict(self), "evidence": list(self.evidence)}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProgress:
    """How far a queue is.

    Attributes:
        answered: Items that somebody has answered.
        items: All items.
        own: Answers of the person.
        second: Items that two people have answered, of `doubled`.
        doubled: Items that two people are asked.
    """

    answered: int
    items: int
    own: int
    second: int
    doubled: int

    def to_json(self) -> dict[str, Json]:
        """The numbers as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.answered:,} of {self.items:,}" if self.items else "the queue has no items"


class ReviewQueue:
    """A queue in use.

    Two people never get the same seat of an item: a seat is claimed in the log, and free again after `LEASE_SECONDS`.
    A second seat is for somebody who has not answered the item before.

    Args:
        stores: Stores of the workspace.
        name: Name of the queue.
        clock: The time in seconds since 1970.

    Raises:
        RequestError: There is no such queue.
    """

    def __init__(self, stores: Stores, name: str, clock: Callable[[], float] = time.time) -> None:
        document = stores.annotations.get_document(QUEUES, name)
        if document is None:
            names = ", ".join(queue.name for queue in list_queues(stores))
            raise RequestError(
                f"no queue {name!r}", f"there are: {names or 'none yet; `ares review create`'}"
            )
        self.queue = queue_from_json(document)
        self._stores, self._log, self._clock = stores, stores.annotations, clock
        self._blocks: dict[int, list[Mapping[str, Any]]] = {}

    def next(self, person: str) -> QueueItem | None:
        """What a person is asked next, again the same until it is answered; None when nothing is left for the person.

        Raises:
            RequestError: The person has no name.
        """
        person = str(person_settings(person)["person"])
        position = self._read_position(person)
        current = position.get("current")
        if isinstance(current, list):
            number, seat = int(str(current[0])), int(str(current[1]))
            if (item := self._hold(number, seat, person)) is not None:
                return item
        if (item := self._find_free(person, position, int(str(position["start"])))) is not None:
            return item
        progress = self.progress()
        # What was taken back since stands before the position of this person.
        if progress.answered < progress.items or progress.second < progress.doubled:
            item = self._find_free(person, position, 0)
        return item

    def next_episodes(self, item: QueueItem, count: int) -> list[str]:
        """The episodes that are probably asked about after an item: of near items that nobody has claimed yet."""
        numbers = range(item.item + 1, min(item.item + _PROBED_ITEMS, self.queue.items))
        free = (number for number in numbers if not _is_gone(self._row(number)) and not self._seats(number))
        return [str(self._row(number)["episode_id"]) for number in islice(free, count)]

    def answer(self, item: QueueItem, person: str, verdict: str, **fields: Any) -> Annotation:
        """Store what a person says of an item; after this call it is in the log.

        Args:
            item: The item, as `next` gave it.
            person: Who says it.
            verdict: As in `Answer`.
            fields: Other fields of `Answer`: reason, failure_kind, severity, text.

        Raises:
            RequestError: The answer is none that can be given.
            StoreError: It cannot be stored.
        """
        answer = Answer(
            question=item.question,
            subject_id=item.subject_id,
            subject_kind=item.subject_kind,
            verdict=verdict,
            person=str(person_settings(person)["person"]),
            queue=item.queue,
            item=item.item,
            drawn=item.drawn,
            **fields,
        )
        return self.give(answer, item.seat)

    def give(self, answer: Answer, seat: int | None = None) -> Annotation:
        """Store an answer about an item of this queue, such as an earlier one with another verdict; see `answer`."""
        annotation = store_answer(self._stores, answer)
        self.record(answer, annotation, seat)
        return annotation

    def record(self, answer: Answer, annotation: Annotation, seat: int | None = None) -> None:
        """Take note of an answer that is in the log; without a seat, in the one that its person has or that is free."""
        seats, person = self._seats(answer.item), answer.person
        if seat is None:
            seat = _seat_of(seats, person)
        position, now = self._read_position(person), self._clock()
        entry: list[Json] = [answer.item, seat, annotation.annotation_id, now]
        last = [*cast("list[Json]", position["last"]), entry]
        position |= {"last": last[-_REMEMBERED:], "current": None}
        position["own"] = int(str(position["own"])) + (not _has_answered(seats, person))
        _count_seat(position, seat, not seats.get(seat, {}).get("verdict"))
        lease = self._lease(person, answer.verdict)
        with self._log.atomic():
            self._put_lease(answer.item, seat, lease)
            self._log.put_documents(POSITIONS, {self._position_key(person): position})

    def undo(self, person: str) -> QueueItem | None:
        """Take the last answer of a person back, and ask it again; None where nothing is left to take back."""
        person = str(person_settings(person)["person"])
        position = self._read_position(person)
        last = cast("list[list[Json]]", position["last"])
        if not last:
            return None
        number, seat, annotation_id = int(str(last[-1][0])), int(str(last[-1][1])), str(last[-1][2])
        take_back(self._stores, annotation_id, person)
        position |= {
            "last": list[Json](last[:-1]),
            "current": [number, seat],
            "own": int(str(position["own"])) - 1,
        }
        lease = self._lease(person)
        _count_seat(position, seat, -1)
        with self._log.atomic():
            self._put_lease(number, seat, lease)
            self._log.put_documents(POSITIONS, {self._position_key(person): position})
        return self._hold(number, seat, person)

    def answer_count(self, person: str) -> int:
        """Number of items that a person has answered."""
        return int(str(self._read_position(person)["own"]))

    def progress(self, person: str = "") -> QueueProgress:
        """How far the queue is, from what each person has answered."""
        position = self._read_position(person) if person else {"own": 0, "last": []}
        tallies = [
            cast("dict[str, Any]", document).get("seats", {})
            for _, document in self._log.find_documents(POSITIONS, f"{self.queue.name}/")
        ]
        first, second = (sum(int(tally.get(seat, 0)) for tally in tallies) for seat in "01")
        return QueueProgress(
            answered=min(max(first, 0), self.queue.items),
            items=self.queue.items,
            own=int(str(position["own"])),
            second=min(max(second, 0), self.queue.doubled),
            doubled=self.queue.doubled,
        )

    def _find_free(self, person: str, position: dict[str, Json], start: int) -> QueueItem | None:
        """Claim the first seat from a position on that a person may have."""
        start_is_fixed = False
        for number in self._unanswered_items(start):
            people = int(self._row(number).get("people", 1))
            seats = self._seats(number)
            is_open = [seat for seat in range(people) if seat not in seats or not seats[seat]["verdict"]]
            if not start_is_fixed and (is_open and not _has_answered(seats, person)):
                # What is before this is answered, or was by this person: it need not be looked at again.
                position["start"], start_is_fixed = number, True
            if not is_open or _has_answered(seats, person) or _is_gone(self._row(number)):
                continue
            for seat in is_open:
                item = self._claim(number, seat, person, seats)
                if item is not None:
                    position["current"] = [number, seat]
                    self._log.put_documents(POSITIONS, {self._position_key(person): position})
                    return item
        return None

    def _unanswered_items(self, start: int) -> Iterator[int]:
        """Numbers of items from a position on; after some, those that are answered are left out at once."""
        yield from range(start, min(start + _PROBED_ITEMS, self.queue.items))
        prefix, answers = f"{self.queue.name}/", Counter[int]()
        for key, lease in self._log.find_documents(SEATS, prefix):
            if cast("dict[str, Json]", lease)["verdict"]:
                answers[int(key.removeprefix(prefix).partition("/")[0])] += 1
        for number in range(start + _PROBED_ITEMS, self.queue.items):
            if answers[number] < int(self._row(number).get("people", 1)):
                yield number

    def _claim(
        self, number: int, seat: int, person: str, seats: Mapping[int, Mapping[str, Any]]
    ) -> QueueItem | None:
        """Take a seat that is free or whose lease has ended; None where somebody else was faster."""
        current = seats.get(seat)
        if current is not None and current["person"] == person:
            return self._show(number, seat)
        if current is not None and current["until"] > self._clock():
            return None
        # Each lease of a seat has a number: of several who find the same one ended, one gets the next.
        attempt = 0 if current is None else int(current["attempt"]) + 1
        key = self._seat_key(number, seat, attempt)
        return self._show(number, seat) if self._log.claim_document(SEATS, key, self._lease(person)) else None

    def _lease(self, person: str, verdict: str = "") -> dict[str, Json]:
        return {"person": person, "until": self._clock() + LEASE_SECONDS, "verdict": verdict}

    def _put_lease(self, number: int, seat: int, lease: dict[str, Json]) -> None:
        """Write the lease of a person in place of an earlier one of the same person."""
        attempts = self._attempts(number, seat)
        person_attempts = [
            attempt for attempt, other in attempts.items() if other["person"] == lease["person"]
        ]
        attempt = person_attempts[-1] if person_attempts else max(attempts, default=-1) + 1
        self._log.put_documents(SEATS, {self._seat_key(number, seat, attempt): lease})

    def _hold(self, number: int, seat: int, person: str) -> QueueItem | None:
        """The item that a person was asked last, unless it is answered or somebody else has it by now."""
        lease = self._seats(number).get(seat)
        if lease is None or lease["person"] != person or lease["verdict"] or _is_gone(self._row(number)):
            return None
        if self._was_answered(number, seat, person):
            return None
        self._put_lease(number, seat, self._lease(person))
        return self._show(number, seat)

    def _was_answered(self, number: int, seat: int, person: str) -> bool:
        """Whether the log has the answer although the seat does not: the process was killed in between."""
        drawn = self._drawn(number, seat)
        for annotation in keep_newest_annotations(
            self._log.find_annotations([self._row(number)["episode_id"]])
        ):
            answer = read_answer(annotation)
            position = (answer.queue, answer.item, answer.person, answer.drawn) if answer else ()
            if answer and position == (self.queue.name, number, person, drawn):
                self.record(answer, annotation, seat)
                return True
        return False

    def _drawn(self, number: int, seat: int) -> str:
        return "repeat" if seat else str(self._row(number)["drawn"])

    def _show(self, number: int, seat: int) -> QueueItem | None:
        """An item as it is shown; None where its episode was removed, until an undo brings it back."""
        row, question = self._row(number), self.queue.question
        item = QueueItem(
            queue=self.queue.name,
            item=number,
            seat=seat,
            question=question,
            subject_id=row["subject"],
            subject_kind="episode" if question in QUESTIONS_OF_EPISODES else "annotation",
            episode_id=row["episode_id"],
            start_seconds=0.0,
            stop_seconds=0.0,
            text="",
            evidence=(),
            drawn=self._drawn(number, seat),
        )
        return self._with_text(item)

    def _with_text(self, item: QueueItem) -> QueueItem | None:
        """An item with its clip and its text; None where its episode is not in the tables."""
        episodes = self._stores.tables.episodes
        columns = ["duration_seconds", "dataset", *recorded_columns(episodes.columns(), "instruction")]
        rows = episodes.read_columns(columns, ids_filter([item.episode_id])).to_pylist()
        if not rows:
            return None
        if item.subject_kind == "episode":
            row: dict[str, Any] = rows[0]
            return replace(
                item,
                stop_seconds=float(row.get("duration_seconds") or 0.0),
                # Whether it is right is asked of what the source says, whatever others say in its place.
                text=recorded_instruction(row) if item.question == INSTRUCTION else row["instruction"],
                evidence=self._audited_frames(item, str(row.get("dataset") or "")),
            )
        subject = find_subject(self._stores, item.subject_id, item.subject_kind)
        return replace(
            item,
            start_seconds=subject.start_seconds,
            stop_seconds=subject.stop_seconds,
            text=str(subject.value.get("text") or ""),
            evidence=self._evidence(subject),
        )

    def _audited_frames(self, item: QueueItem, dataset: str) -> tuple[float, ...]:
        """Seconds of the frames for which the audit names an episode, in a queue of those: else they tell its word."""
        if item.question != INSTRUCTION or "audit" not in self.queue.recipe:
            return ()
        from ares.review.instruction_audit import read_deciding_frames

        return read_deciding_frames(self._stores, dataset, item.episode_id)

    def _evidence(self, subject: Annotation) -> tuple[float, ...]:
        """The second of the frame on which the least sure ruling of a judge rests, else the end.

        One second for every item: how many frames were looked at would tell the verdict.
        """
        named: list[tuple[float, list[float]]] = []
        for annotation in self._log.find_annotations([subject.episode_id]):
            rulings = annotation.value.get("rulings")
            if annotation.subject == subject.annotation_id and isinstance(rulings, list):
                for ruling in rulings:
                    times = ruling.get("evidence") if isinstance(ruling, Mapping) else None
                    if isinstance(ruling, Mapping) and isinstance(times, list) and times:
                        margin = float(str(ruling.get("margin", 1.0)))
                        named.append((margin, sorted(float(str(time)) for time in times)))
        if not named:
            return (max(subject.start_seconds, subject.stop_seconds - _BEFORE_THE_END),)
        _, seconds = min(named)
        return (seconds[len(seconds) // 2],)

    def _row(self, number: int) -> Mapping[str, Any]:
        """An item as it was drawn."""
        block, position = divmod(number, BLOCK_ITEMS)
        if block not in self._blocks:
            document = self._log.get_document(ITEMS, f"{self.queue.name}/{block:06d}")
            self._blocks[block] = cast("list[Mapping[str, Any]]", document)
        return self._blocks[block][position]

    def _seats(self, number: int) -> dict[int, Mapping[str, Any]]:
        """Who has or had the seats of an item, by number of the seat."""
        prefix = f"{self.queue.name}/{number:07d}/"
        seats: dict[int, Mapping[str, Any]] = {}
        for key, document in self._log.find_documents(SEATS, prefix):
            seat, attempt = map(int, key.removeprefix(prefix).split("/"))
            # Who has answered keeps the word, also behind a lease that had ended.
            if seat not in seats or not seats[seat]["verdict"]:
                seats[seat] = {**cast("Mapping[str, Any]", document), "attempt": attempt}
        return seats

    def _attempts(self, number: int, seat: int) -> dict[int, Mapping[str, Any]]:
        prefix = f"{self.queue.name}/{number:07d}/{seat}/"
        documents = self._log.find_documents(SEATS, prefix)
        return {int(key.rpartition("/")[2]): cast("Mapping[str, Any]", lease) for key, lease in documents}

    def _read_position(self, person: str) -> dict[str, Json]:
        """How far a person is."""
        document = self._log.get_document(POSITIONS, self._position_key(person))
        empty: dict[str, Json] = {"start": 0, "current": None, "own": 0, "last": [], "seats": {}}
        return {**empty, **cast("dict[str, Json]", document or {})}

    def _seat_key(self, number: int, seat: int, attempt: int) -> str:
        return f"{self.queue.name}/{number:07d}/{seat}/{attempt:04d}"

    def _position_key(self, person: str) -> str:
        return f"{self.queue.name}/{person}"


def _count_seat(position: dict[str, Json], seat: int, change: int) -> None:
    """Count an answer of a person, by seat."""
    seats = cast("dict[str, Any]", position["seats"])
    position["seats"] = {**seats, str(seat): int(seats.get(str(seat), 0)) + change}


def _seat_of(seats: Mapping[int, Mapping[str, Any]], person: str) -> int:
    """The seat that a person has, else the first that nobody has answered."""
    person_seats = [seat for seat, lease in seats.items() if lease["person"] == person]
    free = [seat for seat in (0, 1) if not seats.get(seat, {}).get("verdict")]
    return next(iter([*person_seats, *free]), max(seats) + 1)


def _has_answered(seats: Mapping[int, Mapping[str, Any]], person: str) -> bool:
    return any(lease["person"] == person and lease["verdict"] for lease in seats.values())


def _is_gone(row: Mapping[str, Any]) -> bool:
    """Whether an episode was deleted for good: a purge has taken its id out of the item."""
    return not str(row.get("episode_id", "")).isalnum()
