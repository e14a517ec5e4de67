"""What people say is true: the answers of a workspace, the queues they are asked in, and files of answers."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TextIO, Unpack, cast

from ares.episode import Json
from ares.errors import AresError, RequestError, StoreError
from ares.io import output_file
from ares.settings import user_name
from ares.store import (
    ForeignAnswer,
    check_people,
    count_uncounted_answers,
    file_origin,
    keep_foreign_answers,
    list_uncounted_answers,
    origin_of,
    person_of,
    read_foreign_answers,
    trust_answers,
)
from ares.workspace.arguments import SelectionOptions, make_selection
from ares.workspace.foreign_names import explain_mistakes
from ares.workspace.printed_tables import ResultTable

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.episode import Json
    from ares.review import (
        Answer,
        InstructionAudit,
        Queue,
        QueueRequest,
        ReviewQueue,
    )
    from ares.store import Action, Stores
    from ares.workspace.arguments import EpisodesLike
    from ares.workspace.measuring import Measurement


# Bad rows of a file that are named one by one.
_NAMED_ROWS = 20
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRow:
    """An answer, as a row of a list or a file.

    Attributes:
        answer: What was said.
        episode_id: The episode that it is about.
        created: When, ISO 8601 time in UTC.
        answer_id: What `ares undo` and `withdraw` take back.
        origin: Where it was given: "here", a file or card with its hash, or "unknown" where it is older than that.
        counts: Whether it counts; what came in a file does once the person is trusted.
    """

    answer: Answer
    episode_id: str
    created: str
    answer_id: str
    origin: str
    counts: bool = True

    def to_json(self) -> dict[str, Json]:
        """The row of a file."""
        about: dict[str, Json] = {"episode_id": self.episode_id, "created": self.created}
        origin: dict[str, Json] = {"origin": self.origin, "counts": self.counts}
        return {**self.answer.to_json(), **about, "answer_id": self.answer_id, **origin}


class AnswerList(ResultTable[AnswerRow]):
    """Answers of people."""

    shown: ClassVar[Mapping[str, Callable[[AnswerRow], object]]] = {
        "answer": lambda row: row.answer_id,
        "episode": lambda row: row.episode_id,
        "question": lambda row: row.answer.question,
        "verdict": lambda row: row.answer.verdict,
        "person": lambda row: row.answer.person,
        "text": lambda row: row.answer.text,
        "reason": lambda row: row.answer.reason,
        "queue": lambda row: f"{row.answer.queue} {row.answer.item + 1}" if row.answer.queue else "",
        "created": lambda row: row.created,
        "origin": lambda row: row.origin,
        "counts": lambda row: row.counts,
    }
    empty: ClassVar[str] = "no answers yet"


class BadRow(NamedTuple):
    """A row of a file that is no answer: its number, the header not counted, and why."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What became of the rows of a file.

    Attributes:
        stored: Answers that were stored.
        known: Rows that say what counts already.
        bad: The first rows that are no answers.
        bad_rows: How many there are.
        trusted: Answers that count from now on, as their people are trusted.
        uncounted: Answers of the file that do not count, by person.
    """

    stored: int
    known: int
    bad: tuple[BadRow, ...]
    bad_rows: int
    trusted: int
    uncounted: Mapping[str, int]

    def to_json(self) -> dict[str, Json]:
        """The counts as JSON."""
        bad: list[Json] = [{"row": row.number, "reason": row.reason} for row in self.bad]
        counts: dict[str, Json] = {"stored": self.stored, "known": self.known, "bad_rows": self.bad_rows}
        return {**counts, "bad": bad, "trusted": self.trusted, "uncounted": dict(self.uncounted)}


@explain_mistakes
class Reviews:
    """What people say of the episodes and texts of a workspace.

        >>> request = QueueRequest(name="lids", question="acceptable", person="Ada")
        >>> ws.review.create(request, where="dataset = 'lids'")
        >>> queue = ws.review.queue("lids")
        >>> item = queue.next("Ada")
        >>> queue.answer(item, "Ada", "met")
        >>> ws.review.answers(person="Ada")

    Args:
        stores: Stores of the workspace.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def create(
        self,
        request: QueueRequest,
        ids: EpisodesLike | None = None,
        **conditions: Unpack[SelectionOptions],
    ) -> Queue:
        """Make a queue of the selected episodes, all of them by default.

        Args:
            request: Its name, question and size; see `ares.review.QueueRequest`.
            ids: Episodes.
            conditions: As for `Workspace.sets.create`.

        Raises:
            RequestError: The name is taken, the selection is wrong, or there is nothing to ask about.
        """
        from ares.curation import select_episodes
        from ares.review import create_queue

        selection = make_selection(ids, conditions)
        if selection.is_empty:
            every = (key for block in self._stores.tables.episodes.id_batches() for key in block)
            return create_queue(self._stores, request, every)
        with select_episodes(self._stores, selection) as selected:
            selected_ids = (key for block in selected.batches() for key in block)
            return create_queue(self._stores, replace(request, recipe=selection.describe()), selected_ids)

    def audit_instructions(self, *datasets: str) -> list[InstructionAudit]:
        """Look for episodes that another instruction of their dataset fits better; see `docs/review.md`.

        Raises RequestError for a dataset that does not exist, and where there are no vectors of frames.
        """
        from ares.review import audit_instructions

        return audit_instructions(self._stores, datasets)

    def audits(self) -> list[InstructionAudit]:
        """The last audit of each dataset, without what a person has ruled on since."""
        from ares.review import read_audits

        return read_audits(self._stores)

    def create_from_audits(self, request: QueueRequest) -> Queue:
        """Make a queue of the episodes that the audits name. Raises RequestError where they name nobody."""
        from ares.review import create_audit_queue

        return create_audit_queue(self._stores, request)

    def queues(self) -> list[Queue]:
        """All queues, by name."""
        from ares.review import list_queues

        return list_queues(self._stores)

    def queue(self, name: str) -> ReviewQueue:
        """A queue, to be asked and to answer. Raises RequestError when there is none of that name."""
        from ares.review import ReviewQueue

        return ReviewQueue(self._stores, name)

    def give(self, answer: Answer) -> str:
        """Store what a person says; returns the id that `withdraw` takes back. Raises RequestError as `give_answer`."""
        from ares.review import give_answer

        return give_answer(self._stores, answer).annotation_id

    def withdraw(self, answer_id: str, person: str = "") -> None:
        """Take an answer back: what the person, you by default, had said before counts again."""
        from ares.review import withdraw_answer

        withdraw_answer(self._stores, answer_id, person or user_name())

    def answers(self, *, queue: str = "", person: str = "") -> AnswerList:
        """The answers that count, and those of files that do not count yet, the newest first."""
        rows = [_answer_row(*pair) for pair in self._pairs(queue, person)]
        rows += self._uncounted_rows(queue, person)
        return AnswerList(sorted(rows, key=lambda row: row.created, reverse=True))

    def uncounted(self) -> dict[str, int]:
        """How many answers of files do not count, by person."""
        return count_uncounted_answers(self._stores.annotations)

    def measure(
        self, dataset: str, question: str = "caption", *, at_least: float = 0.90, person: str = ""
    ) -> Measurement:
        """Measure how many of the accepted captions of a dataset are true, by answers about a random sample.

            >>> measurement = ws.review.measure("lids")
            >>> print(measurement)
            lids: accepted captions: not measured: 36 answers without an error would show 90 %
            >>> item = measurement.next()
            >>> measurement.clips(item)
            >>> measurement.answer(item, "met")

        Args:
            dataset: The dataset.
            question: "caption", "segment", "success" or "instruction".
            at_least: It is asked until this share is shown, or cannot be any more.
            person: Who answers; you by default.

        Raises:
            RequestError: There is nothing to measure, or no such question.
        """
        from ares.workspace.measuring import Measurement

        person = person or user_name()
        return Measurement(self._stores, dataset, question, at_least=at_least, person=person)

    def export_file(self, path: str | Path, *, queue: str = "", person: str = "") -> int:
        """Write the answers that count to a file, JSONL or CSV by its ending. Returns their number."""
        rows = (_answer_row(*pair).to_json() for pair in self._pairs(queue, person))
        count, is_csv = 0, _is_csv(Path(path))
        try:
            with output_file(path) as target, target.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                for row in rows:
                    if is_csv and not count:
                        writer.writerow(row)
                    if is_csv:
                        writer.writerow([_csv_text(value) for value in row.values()])
                    else:
                        file.write(json.dumps(row, ensure_ascii=False) + "\n")
                    count += 1
        except OSError as error:
            raise RequestError("the file cannot be written", f"{str(path)!r}: {error.strerror}") from None
        return count

    def import_file(self, path: str | Path, *, trust_answers_of: Collection[str] = ()) -> ImportReport:
        """Keep the answers of a file that `export_file` or a person wrote; what counts already is left as it is.

        A bad row is named in the report, and the others are kept.

        Args:
            path: The file.
            trust_answers_of: Names of the people whose answers in it count from now on, until `undo`.

        Raises:
            RequestError: The file cannot be read, or has no answers of one of the people.
        """
        from ares.review import prepare_answer
        from ares.workspace.answer_rows import answer_from_row

        log, target = self._stores.annotations, Path(path)
        rows, origin = list(_read_rows(target)), file_origin("file", target)
        known = {_answer_key(answer) for _, answer in self._pairs("", "")}
        kept = {_answer_key(answer) for _, answer in self._foreign(origin)}
        new, same, bad, people, stored = list[ForeignAnswer](), 0, list[BadRow](), set[str](), 0
        for number, row in rows:
            try:
                answer = answer_from_row(_checked_row(row))
                people.add(answer.person.strip())
                key = _answer_key(answer)
                if key in known | kept:
                    same += key in known
                    continue
                prepared = prepare_answer(self._stores, answer)
            except StoreError:
                raise
            except AresError as error:
                bad.append(BadRow(number, str(error)))
            else:
                kept.add(key)
                stored += 1
                new += (
                    ForeignAnswer(annotation=item, producer=part.producer, origin=origin)
                    for part in (prepared, prepared.beside)
                    if part
                    for item in part.annotations
                )
        check_people(trust_answers_of, people)
        with self._stores.applying("ares review import"), log.atomic():
            keep_foreign_answers(log, new)
            action = trust_answers(log, origin, trust_answers_of, user_name())
            self._record_in_queues(action)
        return ImportReport(
            stored=stored,
            known=same,
            bad=tuple(bad[:_NAMED_ROWS]),
            bad_rows=len(bad),
            trusted=action.count if action else 0,
            uncounted=count_uncounted_answers(log, origin),
        )

    def _record_in_queues(self, action: Action | None) -> None:
        """Let queues know the answers to their items that an action lets count."""
        queues = {queue.name: queue for queue in self.queues()} if action else {}
        if action is None or not queues:
            return
        for _, answer in self._foreign(str(action.details["origin"])):
            queue = queues.get(answer.queue)
            is_counted = answer.person in cast("list[str]", action.details["of"])
            if queue and is_counted and answer.item < queue.items and answer.question == queue.question:
                self.queue(queue.name).record(answer)

    def _foreign(self, origin: str) -> Iterator[tuple[Annotation, Answer]]:
        """The answers that were kept of a file."""
        from ares.review import read_answer

        for foreign in read_foreign_answers(self._stores.annotations):
            answer = read_answer(foreign.annotation)
            if answer and foreign.origin == origin:
                yield foreign.annotation, answer

    def _uncounted_rows(self, queue: str, person: str) -> Iterator[AnswerRow]:
        """The answers of files that do not count."""
        from ares.review import read_answer

        for foreign in list_uncounted_answers(self._stores.annotations):
            answer = read_answer(foreign.annotation)
            if answer and queue in ("", answer.queue) and person in ("", person_of(foreign.producer)):
                row = _answer_row(foreign.annotation, answer)
                yield replace(row, origin=foreign.origin, counts=False)

    def _pairs(self, queue: str, person: str) -> Iterator[tuple[Annotation, Answer]]:
        from ares.review import list_answers

        return list_answers(self._stores, queue=queue, person=person)


def _answer_row(annotation: Annotation, answer: Answer) -> AnswerRow:
    return AnswerRow(
        answer=answer,
        episode_id=annotation.episode_id,
        created=annotation.created,
        answer_id=annotation.annotation_id,
        origin=origin_of(annotation),
    )


def _answer_key(answer: Answer) -> str:
    return json.dumps(answer.to_json(), sort_keys=True)


def _is_csv(path: Path) -> bool:
    if path.suffix not in (".csv", ".jsonl"):
        raise RequestError("a file of answers is .csv or .jsonl", repr(str(path)))
    return path.suffix == ".csv"


def _csv_text(value: Json) -> object:
    """A cell; a text that a spreadsheet would take for a formula gets an apostrophe in front."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
    return f"'{text}" if isinstance(text, str) and text.startswith(_FORMULA_STARTS) else text


def _csv_rows(file: TextIO) -> Iterator[dict[str, Any]]:
    for row in csv.DictReader(file):
        yield {name: _without_apostrophe(text) for name, text in row.items()}


def _without_apostrophe(text: Any) -> Any:
    is_escaped = isinstance(text, str) and text.startswith("'") and text[1:].startswith(_FORMULA_STARTS)
    return text[1:] if is_escaped else text


def _read_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """The rows of a file with their numbers, from 1; None for one that is no JSON."""
    is_csv = _is_csv(path)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            yield from enumerate(_csv_rows(file) if is_csv else map(_parse_line, file), start=1)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RequestError("the file of answers cannot be read", f"{str(path)!r}: {error}") from None


def _parse_line(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _checked_row(row: Any) -> Mapping[str, Any]:
    if not isinstance(row, dict) or None in row:
        raise RequestError("a row is no answer", "give one JSON object, or as many cells as the header has")
    return row
