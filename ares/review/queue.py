"""A review queue in use: who is asked what next, by several people at once, and what they have answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from ares.episode import Json
from ares.errors import RequestError
from ares.review.answers import Answer, find_subject, read_answer, store_answer, take_back
from ares.review.drawing import (
    BLOCK_ITEMS,
    ITEMS,
    QUESTIONS_OF_EPISODES,
    QUEUES,
    list_queues,
    queue_from_json,
)
from ares.review.labels import person_settings
from ares.store import ids_filter, keep_newest_annotations

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.store import Stores


# Kinds of documents: seats of items, what two people differ on, and how far a person is.
SEATS, DISPUTES, PLACES = "review_seats", "review_disputes", "review_places"
# An item that nobody has answered for so long is free again; who answers late keeps the word.
LEASE_SECONDS = 900.0
# Answers that the pace is measured over, and that an undo goes back.
_REMEMBERED = 50
_ADJUDICATOR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueItem:
    """One item as whoever is asked sees it: neither judge, maker nor what somebody else has said.

    Attributes:
        queue: Name of the queue.
        item: Position in the queue, from 0.
        seat: 0, 1 for a second person, 2 where two people differ.
        question: What is asked.
        subject_id: Id of the episode, or of the annotation with the text.
        subject_kind: "episode" or "annotation".
        episode_id: The episode.
        start_seconds: Start of the clip.
        stop_seconds: End of the clip.
        text: The text that is asked about; for an instruction that of the source.
        evidence: Seconds of the frames that decide, if a judge has named some.
        stratum: What it was drawn from.
        drawn: "random", "worth", "repeat" or "adjudicate".
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
    stratum: str
    drawn: str

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {**asdict(self), "evidence": list(self.evidence)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a queue is.

    Attributes:
        answered: Items that somebody has answered.
        items: All items.
        own: Answers of the person.
        second: Items that two people have answered, of `doubled`.
        doubled: Items that two people are asked.
        disputed: Items that two people differ on and nobody has decided.
        seconds_per_answer: Pace of the person, the median of the last answers; None before the second.
    """

    answered: int
    items: int
    own: int
    second: int
    doubled: int
    disputed: int
    seconds_per_answer: float | None

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes one person at this pace; None where the pace is not known."""
        left = self.items - self.answered + self.doubled - self.second + self.disputed
        return None if self.seconds_per_answer is None else left * self.seconds_per_answer

    def to_json(self) -> dict[str, Json]:
        """The numbers as JSON."""
        return {**asdict(self), "seconds_left": self.seconds_left}

    def __str__(self) -> str:
        parts = [f"{self.answered:,} of {self.items:,}"]
        if self.seconds_per_answer is not None and self.seconds_left is not None:
            parts.append(f"{self.seconds_per_answer:.0f} s each, {_format_time(self.seconds_left)} left")
        if self.disputed:
            parts.append(f"{self.disputed} disputed")
        return " · ".join(parts)


def _format_time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


class ReviewQueue:
    """A queue in use.

    Two people never get the same seat of an item: a seat is claimed in the log, and free again after `LEASE_SECONDS`.
    A second seat and that of an adjudicator are for somebody who has not answered the item before.

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
        place = self._place(person)
        current = place.get("current")
        if isinstance(current, list):
            number, seat = int(str(current[0])), int(str(current[1]))
            if (item := self._hold(number, seat, person)) is not None:
                return item
        if (item := self._find_free(person, place, int(str(place["start"])))) is not None:
            return item
        progress = self.progress()
        # What was taken back since stands before the place of this person.
        if progress.answered < progress.items or progress.second < progress.doubled:
            item = self._find_free(person, place, 0)
        return item or self._find_disputed(person, place)

    def answer(self, item: QueueItem, person: str, verdict: str, **said: Any) -> Annotation:
        """Store what a person says of an item; after this call it is in the log.

        Args:
            item: The item, as `next` gave it.
            person: Who says it.
            verdict: As in `Answer`.
            said: Other fields of `Answer`: reason, failure_kind, severity, text.

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
            stratum=item.stratum,
            drawn=item.drawn,
            **said,
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
        place, now = self._place(person), self._clock()
        entry: list[Json] = [answer.item, seat, annotation.annotation_id, now]
        last = [*cast("list[Json]", place["last"]), entry]
        place |= {"last": last[-_REMEMBERED:], "current": None}
        place["own"] = int(str(place["own"])) + (not _has_answered(seats, person))
        lease = self._lease(person, answer.verdict)
        with self._log.atomic():
            self._put_lease(answer.item, seat, lease)
            self._log.put_documents(PLACES, {self._place_key(person): place})
            self._note_dispute(answer.item, seats | {seat: lease})

    def undo(self, person: str) -> QueueItem | None:
        """Take the last answer of a person back, and ask it again; None where nothing is left to take back."""
        person = str(person_settings(person)["person"])
        place = self._place(person)
        last = cast("list[list[Json]]", place["last"])
        if not last:
            return None
        number, seat, annotation_id = int(str(last[-1][0])), int(str(last[-1][1])), str(last[-1][2])
        take_back(self._stores, annotation_id, person)
        place |= {"last": list[Json](last[:-1]), "current": [number, seat], "own": int(str(place["own"])) - 1}
        lease = self._lease(person)
        with self._log.atomic():
            self._put_lease(number, seat, lease)
            self._log.put_documents(PLACES, {self._place_key(person): place})
            self._note_dispute(number, self._seats(number) | {seat: lease})
        return self._hold(number, seat, person)

    def own_count(self, person: str) -> int:
        """Number of items that a person has answered."""
        return int(str(self._place(person)["own"]))

    def progress(self, person: str = "") -> Progress:
        """How far the queue is, counted from its seats."""
        answered: set[str] = set()
        own = self._place(person) if person else {"own": 0, "last": []}
        for key, lease in self._log.find_documents(SEATS, f"{self.queue.name}/"):
            if cast("dict[str, Json]", lease)["verdict"]:
                answered.add(key.rpartition("/")[0])
        times = [float(str(entry[3])) for entry in cast("list[list[Json]]", own["last"])]
        gaps = sorted(later - earlier for earlier, later in pairwise(times))
        disputed = sum(1 for _ in self._log.find_documents(DISPUTES, f"{self.queue.name}/"))
        return Progress(
            answered=sum(key.endswith("/0") for key in answered),
            items=self.queue.items,
            own=int(str(own["own"])),
            second=sum(key.endswith("/1") for key in answered),
            doubled=self.queue.doubled,
            disputed=disputed,
            seconds_per_answer=gaps[len(gaps) // 2] if gaps else None,
        )

    def _find_free(self, person: str, place: dict[str, Json], start: int) -> QueueItem | None:
        """Claim the first seat from a position on that a person may have."""
        start_is_fixed = False
        for number in range(start, self.queue.items):
            people = int(self._row(number).get("people", 1))
            seats = self._seats(number)
            is_open = [seat for seat in range(people) if seat not in seats or not seats[seat]["verdict"]]
            if not start_is_fixed and (is_open and not _has_answered(seats, person)):
                # What is before this is answered, or was by this person: it need not be looked at again.
                place["start"], start_is_fixed = number, True
            if not is_open or _has_answered(seats, person) or _is_gone(self._row(number)):
                continue
            for seat in is_open:
                item = self._claim(number, seat, person, seats)
                if item is not None:
                    place["current"] = [number, seat]
                    self._log.put_documents(PLACES, {self._place_key(person): place})
                    return item
        return None

    def _find_disputed(self, person: str, place: dict[str, Json]) -> QueueItem | None:
        """Claim an item that two people differ on; a third decides it, where there are only two one of them."""
        people = sum(1 for _ in self._log.find_documents(PLACES, f"{self.queue.name}/"))
        for key, _ in list(self._log.find_documents(DISPUTES, f"{self.queue.name}/")):
            number = int(key.rpartition("/")[2])
            seats = self._seats(number)
            if _is_gone(self._row(number)) or (people > len(seats) and _has_answered(seats, person)):
                continue
            item = self._claim(number, _ADJUDICATOR, person, seats)
            if item is not None:
                place["current"] = [number, _ADJUDICATOR]
                self._log.put_documents(PLACES, {self._place_key(person): place})
                return item
        return None

    def _claim(
        self, number: int, seat: int, person: str, seats: Mapping[int, Mapping[str, Any]]
    ) -> QueueItem | None:
        """Take a seat that is free or whose lease has ended; None where somebody else was faster."""
        held = seats.get(seat)
        if held is not None and held["person"] == person:
            return self._show(number, seat)
        if held is not None and held["until"] > self._clock():
            return None
        # Each lease of a seat has a number: of several who find the same one ended, one gets the next.
        attempt = 0 if held is None else int(held["attempt"]) + 1
        key = self._seat_key(number, seat, attempt)
        return self._show(number, seat) if self._log.claim_document(SEATS, key, self._lease(person)) else None

    def _lease(self, person: str, verdict: str = "") -> dict[str, Json]:
        return {"person": person, "until": self._clock() + LEASE_SECONDS, "verdict": verdict}

    def _put_lease(self, number: int, seat: int, lease: dict[str, Json]) -> None:
        """Write the lease of a person in place of an earlier one of the same person."""
        attempts = self._attempts(number, seat)
        own = [attempt for attempt, other in attempts.items() if other["person"] == lease["person"]]
        attempt = own[-1] if own else max(attempts, default=-1) + 1
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
            place = (answer.queue, answer.item, answer.person, answer.drawn) if answer else ()
            if answer and place == (self.queue.name, number, person, drawn):
                self.record(answer, annotation, seat)
                return True
        return False

    def _drawn(self, number: int, seat: int) -> str:
        return (str(self._row(number)["drawn"]), "repeat", "adjudicate")[seat]

    def _show(self, number: int, seat: int) -> QueueItem | None:
        """An item as it is shown."""
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
            stratum=row["stratum"],
            drawn=self._drawn(number, seat),
        )
        return self._with_text(item)

    def _with_text(self, item: QueueItem) -> QueueItem:
        """An item with its clip and its text."""
        if item.subject_kind == "episode":
            columns = ["duration_seconds", "instruction"]
            rows = self._stores.tables.episodes.read_columns(columns, ids_filter([item.episode_id]))
            row: dict[str, Any] = next(iter(rows.to_pylist()), {})
            return replace(
                item,
                stop_seconds=float(row.get("duration_seconds") or 0.0),
                text=str(row.get("instruction") or ""),
            )
        subject = find_subject(self._stores, item.subject_id, item.subject_kind)
        return replace(
            item,
            start_seconds=subject.start_seconds,
            stop_seconds=subject.stop_seconds,
            text=str(subject.value.get("text") or ""),
            evidence=self._evidence(subject),
        )

    def _evidence(self, subject: Annotation) -> tuple[float, ...]:
        """Seconds of the frames that judges have named, of all criteria: they tell no verdict."""
        seconds: set[float] = set()
        for annotation in self._log.find_annotations([subject.episode_id]):
            rulings = annotation.value.get("rulings")
            if annotation.subject == subject.annotation_id and isinstance(rulings, list):
                named = [ruling.get("evidence") for ruling in rulings if isinstance(ruling, Mapping)]
                seconds.update(
                    float(str(time)) for times in named if isinstance(times, list) for time in times
                )
        return tuple(sorted(seconds))

    def _note_dispute(self, number: int, seats: Mapping[int, Mapping[str, Any]]) -> None:
        """Remember an item that two people differ on, and forget it once it is decided."""
        key = f"{self.queue.name}/{number:07d}"
        first, second, third = (str(seats.get(seat, {}).get("verdict", "")) for seat in (0, 1, _ADJUDICATOR))
        if first and second and first != second and not third:
            self._log.put_documents(DISPUTES, {key: True})
        else:
            self._log.drop_documents(DISPUTES, [key])

    def _row(self, number: int) -> Mapping[str, Any]:
        """An item as it was drawn."""
        block, place = divmod(number, BLOCK_ITEMS)
        if block not in self._blocks:
            document = self._log.get_document(ITEMS, f"{self.queue.name}/{block:06d}")
            self._blocks[block] = cast("list[Mapping[str, Any]]", document)
        return self._blocks[block][place]

    def _seats(self, number: int) -> dict[int, Mapping[str, Any]]:
        """Who has or had the seats of an item, by number of the seat."""
        seats: dict[int, Mapping[str, Any]] = {}
        for seat in (0, 1, _ADJUDICATOR):
            for attempt, lease in self._attempts(number, seat).items():
                # Who has answered keeps the word, also behind a lease that had ended.
                if seat not in seats or not seats[seat]["verdict"]:
                    seats[seat] = {**lease, "attempt": attempt}
        return seats

    def _attempts(self, number: int, seat: int) -> dict[int, Mapping[str, Any]]:
        prefix = f"{self.queue.name}/{number:07d}/{seat}/"
        found = self._log.find_documents(SEATS, prefix)
        return {int(key.rpartition("/")[2]): cast("Mapping[str, Any]", lease) for key, lease in found}

    def _place(self, person: str) -> dict[str, Json]:
        """How far a person is."""
        document = self._log.get_document(PLACES, self._place_key(person))
        empty: dict[str, Json] = {"start": 0, "current": None, "own": 0, "last": []}
        return {**empty, **cast("dict[str, Json]", document or {})}

    def _seat_key(self, number: int, seat: int, attempt: int) -> str:
        return f"{self.queue.name}/{number:07d}/{seat}/{attempt:04d}"

    def _place_key(self, person: str) -> str:
        return f"{self.queue.name}/{person}"


def _seat_of(seats: Mapping[int, Mapping[str, Any]], person: str) -> int:
    """The seat that a person has, else the first that nobody has answered."""
    own = [seat for seat, lease in seats.items() if lease["person"] == person]
    free = [seat for seat in (0, 1, _ADJUDICATOR) if not seats.get(seat, {}).get("verdict")]
    return next(iter([*own, *free]), _ADJUDICATOR)


def _has_answered(seats: Mapping[int, Mapping[str, Any]], person: str) -> bool:
    return any(lease["person"] == person and lease["verdict"] for lease in seats.values())


def _is_gone(row: Mapping[str, Any]) -> bool:
    """Whether an episode was deleted for good: a purge has taken its id out of the item."""
    return not str(row.get("episode_id", "")).isalnum()
