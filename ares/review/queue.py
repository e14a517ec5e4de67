"""A review queue in use: who is asked what next, by several people at once, and what they have answered."""

from __future__ import annotations

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ares.episode import Json
from ares.errors import RequestError
from ares.review.answers import (
    INSTRUCTION,
    Answer,
    find_subject,
    is_about_attribute,
    is_about_episode,
    prepare_answer,
    read_answers,
    take_back,
)
from ares.review.drawing import (
    BLOCK_ITEMS,
    ITEMS,
    QUEUES,
    list_queues,
    queue_from_json,
)
from ares.review.labels import person_settings, store_prepared
from ares.store import (
    ids_filter,
    read_rulings,
    recorded_columns,
    recorded_instruction,
)

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.store import Stores


# Kinds of documents: who has or had which seat of an item, and a random text for each change in a block of items.
SEATS, _SEAT_CHANGES = "review_seats", "review_seat_changes"
# What is shown of an item for which no judge has named a frame.
_BEFORE_THE_END = 0.5
# An item that nobody has answered for so long is free again; who answers late keeps the word.
LEASE_SECONDS = 900.0
# Items in which those are looked for that are probably asked next.
_NEAR_ITEMS = 20


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
        text: The text that is asked about; for an instruction that of the source, for an attribute its value.
        evidence: Seconds of the frames that decide, if a judge has named some.
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

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {**asdict(self), "evidence": list(self.evidence)}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProgress:
    """How far a queue is.

    Attributes:
        answered: Items that somebody has answered.
        items: All items.
        own: Items that the person has answered.
        left: Items that the person may still be asked; without a person, that still need an answer.
        busy_until: When the last of them is free that another person is asked now, in seconds since 1970; else 0.
        verdicts: How often the person has answered what, such as {"met": 19, "unmet": 1}.
    """

    answered: int
    items: int
    own: int
    left: int
    busy_until: float
    verdicts: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """The numbers as JSON."""
        return asdict(self)

    def describe_own(self) -> str:
        """How far the person is, of what the person has answered and may still be asked: "you: 12 of 40"."""
        return f"you: {self.own:,} of {self.own + self.left:,}"

    def describe_verdicts(self) -> str:
        """What the person has answered: "; 19 met, 1 unmet", or ""."""
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(self.verdicts.items()))
        return f"; {counts}" if counts else ""

    def describe_busy(self) -> str:
        """Until when other people are asked what is left: "" where they are not."""
        until = time.strftime("%H:%M", time.localtime(self.busy_until))
        return f"; somebody else is asked what is left, until {until}" if self.busy_until else ""

    def __str__(self) -> str:
        return f"{self.answered:,} of {self.items:,}" if self.items else "the queue has no items"


class _Lease(NamedTuple):
    """Who has a seat of an item, or has answered there.

    Attributes:
        item: Position in the queue, from 0.
        seat: 0, or 1 for a second person.
        attempt: The how many-th lease of the seat, from 0.
        person: Who has it.
        until: When it ends, `LEASE_SECONDS` after the seat was taken or answered; in seconds since 1970.
        verdict: What the person has answered, or "".
    """

    item: int
    seat: int
    attempt: int
    person: str
    until: float
    verdict: str


class _SeatBlock(NamedTuple):
    """The seats of a block of items.

    Attributes:
        change: Text of the last change, or None.
        leases: The leases, by item.
        episodes: The episodes that are answered there.
    """

    change: Json
    leases: list[_Lease]
    episodes: set[str]


class ReviewQueue:
    """A queue in use; it keeps what it reads, and reads what has changed again. Threads may share it.

    Two people never get the same seat of an item: a seat is claimed in the log, and free again after `LEASE_SECONDS`.
    A second seat is for somebody who has not answered the item before. An answer that was taken back, or that does
    not count in a measurement as no clip was shown, opens its item again; it is asked behind the others.

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
        self._seats, self._sequence = dict[int, _SeatBlock](), self._log.last_sequence()
        self._lock = Lock()

    def next(self, person: str) -> QueueItem | None:
        """What a person is asked next, again the same until it is answered; None when nothing is left for the person.

        Raises:
            RequestError: The person has no name.
        """
        person = str(person_settings(person)["person"])
        leases, by_item = self._leases(), defaultdict[int, list[_Lease]](list)
        own = {lease.item for lease in leases if lease.person == person and lease.verdict}
        for lease in leases:
            if lease.item not in own:
                by_item[lease.item].append(lease)
        seats = {number: _find_seats(leases) for number, leases in by_item.items()}
        shown = (lease for item in seats.values() for lease in item.values())
        unanswered = [lease for lease in shown if lease.person == person and not lease.verdict]
        unanswered.sort(key=lambda lease: (-lease.until, lease.item))
        if (item := self._ask_again(lease for lease in unanswered if lease.until)) is not None:
            return item
        own |= {lease.item for lease in unanswered}
        for number in range(self.queue.items):
            if number not in own:
                for seat in range(int(self._row(number).get("people", 1))):
                    item = self._claim(number, seat, person, seats.get(number, {}).get(seat))
                    if item is not None:
                        return item
        return self._ask_again(lease for lease in unanswered if not lease.until)

    def next_episodes(self, item: QueueItem, count: int) -> list[str]:
        """The episodes that are probably asked about after an item: of near items that nobody has claimed yet."""
        claimed = {lease.item for lease in self._leases()}
        numbers = range(item.item + 1, min(item.item + _NEAR_ITEMS, self.queue.items))
        free = (row for number in numbers if number not in claimed if not _is_gone(row := self._row(number)))
        return [str(row["episode_id"]) for row in islice(free, count)]

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
        if is_about_attribute(item.question):
            fields["text"] = item.text
        answer = Answer(
            question=item.question,
            subject_id=item.subject_id,
            subject_kind=item.subject_kind,
            verdict=verdict,
            person=str(person_settings(person)["person"]),
            queue=item.queue,
            item=item.item,
            **fields,
        )
        return self.give(answer, item.seat)

    def give(self, answer: Answer, seat: int | None = None) -> Annotation:
        """Store an answer about an item of this queue, such as an earlier one with another verdict; see `answer`."""
        prepared = prepare_answer(self._stores, answer)
        with self._log.atomic():
            (annotation,) = store_prepared(self._stores, prepared)
            self.record(answer, seat)
        return annotation

    def record(self, answer: Answer, seat: int | None = None) -> None:
        """Take note of an answer that is in the log; without a seat, in the one that its person has or that is free."""
        self._put_lease(answer.item, seat, answer.person, answer.verdict)

    def undo(self, person: str) -> QueueItem | None:
        """Take the last answer of a person back, and ask it again; None where nothing is left to take back."""
        person = str(person_settings(person)["person"])
        answered = [lease for lease in self._leases() if lease.person == person and lease.verdict]
        if not answered:
            return None
        last = max(answered, key=lambda lease: (lease.until, lease.item))
        with self._log.atomic():
            for annotation, answer in read_answers(
                self._stores, [self._row(last.item)["episode_id"]], person
            ):
                if (answer.queue, answer.item) == (self.queue.name, last.item):
                    take_back(self._stores, annotation.annotation_id, person)
            self._put_lease(last.item, last.seat, person)
        return self._show(last.item, last.seat)

    def progress(self, person: str = "") -> QueueProgress:
        """How far the queue is, from what each person has answered."""
        leases = self._leases()
        answered = [lease for lease in leases if lease.verdict]
        own = {lease.item for lease in answered if lease.person == person}
        others = {(lease.item, lease.seat) for lease in answered if lease.item not in own}
        seats = Counter(item for item, _ in others)
        full = {item for item, count in seats.items() if count >= int(self._row(item).get("people", 1))}
        over, now = own | full, self._clock()
        unfinished = (lease for lease in leases if lease.person != person and lease.item not in over)
        ends = [lease.until for lease in unfinished if not lease.verdict and lease.until > now]
        return QueueProgress(
            answered=len({lease.item for lease in answered if lease.seat == 0}),
            items=self.queue.items,
            own=len(own),
            left=self.queue.items - len(over),
            busy_until=max(ends, default=0.0),
            verdicts=dict(Counter(lease.verdict for lease in answered if lease.person == person)),
        )

    def _leases(self) -> list[_Lease]:
        """The leases of all items; one whose answer does not count any more is unanswered and over."""
        with self._lock:
            changed, last = set[str](), self._sequence
            while entries := self._log.read(last):
                changed.update(entry.annotation.episode_id for entry in entries)
                last = entries[-1].sequence
            changes = dict(self._log.find_documents(_SEAT_CHANGES, f"{self.queue.name}/"))
            for block in range(-(-self.queue.items // BLOCK_ITEMS)):
                kept, key = self._seats.get(block), self._change_key(block)
                if kept is None or kept.change != changes.get(key) or not changed.isdisjoint(kept.episodes):
                    self._seats[block] = self._read_seats(key, changes.get(key))
            self._sequence = last
            return [lease for block in self._seats.values() for lease in block.leases]

    def _read_seats(self, prefix: str, change: Json = None) -> _SeatBlock:
        """The seats with a prefix of their keys."""
        leases = list[_Lease]()
        for key, document in self._log.find_documents(SEATS, prefix):
            item, seat, attempt = map(int, key.removeprefix(f"{self.queue.name}/").split("/"))
            stored = cast("dict[str, Any]", document)
            leases.append(_Lease(item, seat, attempt, stored["person"], stored["until"], stored["verdict"]))
        # Answers about purged episodes were given, too.
        rows = {
            lease: row for lease in leases if lease.verdict and not _is_gone(row := self._row(lease.item))
        }
        is_measured, episodes = "measure" in self.queue.recipe, {row["episode_id"] for row in rows.values()}
        counting = {
            (answer.person.strip(), answer.subject_id)
            for _, answer in read_answers(self._stores, episodes)
            if answer.question == self.queue.question and (answer.shown or not is_measured)
        }
        over = {
            lease for lease, row in rows.items() if (lease.person.strip(), row["subject"]) not in counting
        }
        shown = [lease._replace(verdict="", until=0.0) if lease in over else lease for lease in leases]
        return _SeatBlock(change, shown, episodes)

    def _ask_again(self, leases: Iterable[_Lease]) -> QueueItem | None:
        """Give the first item of some leases of a person for longer; None where none can be shown."""
        for lease in leases:
            if (item := self._show(lease.item, lease.seat)) is not None:
                self._put_lease(lease.item, lease.seat, lease.person)
                return item
        return None

    def _claim(self, number: int, seat: int, person: str, current: _Lease | None) -> QueueItem | None:
        """Take a seat that is free or whose lease has ended; None where it is not, or somebody else was faster."""
        is_busy = current is not None and (current.verdict or current.until > self._clock())
        if current is not None and (is_busy or current.person == person):
            return None
        # Each lease of a seat has a number: of several who find the same one ended, one gets the next.
        attempt = 0 if current is None else current.attempt + 1
        if (item := self._show(number, seat)) is None:
            return None
        key = self._seat_key(number, seat, attempt)
        with self._log.atomic():
            is_claimed = self._log.claim_document(SEATS, key, self._make_lease(person))
            self._note_change(number)
        return item if is_claimed else None

    def _make_lease(self, person: str, verdict: str = "") -> dict[str, Json]:
        return {"person": person, "until": self._clock() + LEASE_SECONDS, "verdict": verdict}

    def _put_lease(self, number: int, seat: int | None, person: str, verdict: str = "") -> None:
        """Write the lease of a person in place of an earlier one of the same person."""
        leases = self._read_seats(f"{self.queue.name}/{number:07d}/").leases
        if seat is None:
            seats = _find_seats(leases)
            person_seats = [lease.seat for lease in leases if lease.person == person]
            free = [number for number in (0, 1) if number not in seats or not seats[number].verdict]
            seat = next(iter([*person_seats, *free]), max(seats, default=0) + 1)
        own = [lease.attempt for lease in leases if (lease.seat, lease.person) == (seat, person)]
        attempt = own[-1] if own else sum(lease.seat == seat for lease in leases)
        key = self._seat_key(number, seat, attempt)
        with self._log.atomic():
            self._log.put_documents(SEATS, {key: self._make_lease(person, verdict)})
            self._note_change(number)

    def _note_change(self, number: int) -> None:
        """Let all who keep the seats of a block of items read them again."""
        key = self._change_key(number // BLOCK_ITEMS)
        self._log.put_documents(_SEAT_CHANGES, {key: uuid.uuid4().hex})

    def _show(self, number: int, seat: int) -> QueueItem | None:
        """An item as it is shown; None where its episode was removed, until an undo brings it back."""
        row, question = self._row(number), self.queue.question
        if _is_gone(row):
            return None
        table = self._stores.tables.episodes
        columns = ["duration_seconds", *recorded_columns(table.columns(), "instruction")]
        episodes = table.read_columns(columns, ids_filter([row["episode_id"]]))
        if not len(episodes):
            return None
        kind = "episode" if is_about_episode(question) else "annotation"
        if kind == "episode":
            (episode,) = episodes.to_pylist()
            start, stop = 0.0, float(episode["duration_seconds"] or 0.0)
            # Whether it is right is asked of what the source says, whatever others say in its place.
            text = recorded_instruction(episode) if question == INSTRUCTION else episode["instruction"]
            if is_about_attribute(question):
                text = row["word"]
            evidence: tuple[float, ...] = ()
        else:
            subject = find_subject(self._stores, row["subject"], kind)
            start, stop = subject.start_seconds, subject.stop_seconds
            text, evidence = subject.value.get("text"), self._evidence(subject)
        return QueueItem(
            queue=self.queue.name,
            item=number,
            seat=seat,
            question=question,
            subject_id=row["subject"],
            subject_kind=kind,
            episode_id=row["episode_id"],
            start_seconds=start,
            stop_seconds=stop,
            text=str(text or ""),
            evidence=evidence,
        )

    def _evidence(self, subject: Annotation) -> tuple[float, ...]:
        """The second of the frame on which the least sure ruling of a judge rests, else the end.

        One second for every item: how many frames were looked at would tell the verdict.
        """
        named: list[tuple[float, list[float]]] = []
        for annotation in self._log.find_annotations([subject.episode_id]):
            is_about = annotation.subject == subject.annotation_id
            for ruling in read_rulings(annotation.value) if is_about else ():
                times = ruling.get("evidence")
                if isinstance(times, list) and times:
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

    def _change_key(self, block: int) -> str:
        """Key of the changes of a block of items, with which the keys of its seats begin."""
        return f"{self.queue.name}/{block:04d}"

    def _seat_key(self, number: int, seat: int, attempt: int) -> str:
        return f"{self.queue.name}/{number:07d}/{seat}/{attempt:04d}"


def _find_seats(leases: Iterable[_Lease]) -> dict[int, _Lease]:
    """Who has or had the seats of an item, by number of the seat."""
    seats = dict[int, _Lease]()
    for lease in leases:
        # Who has answered keeps the word, also behind a lease that had ended.
        if lease.seat not in seats or not seats[lease.seat].verdict:
            seats[lease.seat] = lease
    return seats


def _is_gone(row: Mapping[str, Any]) -> bool:
    """Whether an episode was deleted for good: a purge has taken its id out of the item."""
    return not str(row.get("episode_id", "")).isalnum()
