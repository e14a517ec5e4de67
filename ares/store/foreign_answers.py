"""Answers of people from files written elsewhere: kept beside the log, and in it once somebody trusts the person."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ares.annotation import WITHDRAWN, Annotation, Producer
from ares.episode import Json
from ares.errors import RequestError
from ares.registry import did_you_mean
from ares.store.actions import Action, ActionHistory, read_history, record_action
from ares.store.log.protocol import (
    AnnotationRow,
    annotation_from_row,
    annotation_to_row,
    decode_json,
    producer_from_text,
    producer_to_text,
)
from ares.store.sql import batched
from ares.store.sync.shown_values import keep_newest_annotations

if TYPE_CHECKING:
    from ares.store.log.protocol import AnnotationStore


# Documents by episode, origin and id of the answer, with its row; and the producers by their ids.
_COLLECTION, _PRODUCERS = "foreign_answers", "maker/"
# Keys in the value of an answer: where it was given, the answer that an undo let count again, and that a segment is
# as it was, stored beside one that a person changed.
ORIGIN, RESTORES, UNCHANGED = "origin", "restores", "unchanged"
HERE, UNKNOWN = "here", "unknown"
_ANSWERS_PER_WRITE, _ORIGIN_DIGITS = 2_000, 16


def file_origin(kind: str, path: Path) -> str:
    """Where the answers of a file come from: "file answers.csv sha256:0123...". Raises OSError."""
    with path.open("rb") as file:
        return f"{kind} {path.name} sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def origin_of(annotation: Annotation) -> str:
    """Where an answer was given: "here", a file or card with its hash, or "unknown" where nothing was kept of it."""
    return str(annotation.value.get(ORIGIN, UNKNOWN))


def person_of(producer: Producer) -> str:
    """The person that a producer stands for."""
    return str(producer.settings.get("person", ""))


def original_answer_id(annotation: Annotation) -> str:
    """Id of the answer as it was given first."""
    return str(annotation.value.get(RESTORES, annotation.annotation_id))


def counting_answers(annotations: Iterable[Annotation]) -> list[Annotation]:
    """The answers of one address that no undo took back, oldest first; the last of them counts."""
    counting: list[Annotation] = []
    for annotation in annotations:
        if annotation.is_withdrawn:
            counting.clear()
            continue
        known = [original_answer_id(answer) for answer in counting[:-1]]
        if annotation.value.get(RESTORES) in known:
            del counting[known.index(original_answer_id(annotation)) :]
        counting.append(annotation)
    return counting


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignAnswer:
    """An answer that came in a file.

    Attributes:
        annotation: The answer.
        producer: The person that it names.
        origin: The file, see `file_origin`.
        counts: Whether somebody here trusts this person's answers of this file.
    """

    annotation: Annotation
    producer: Producer
    origin: str
    counts: bool = False

    @property
    def key(self) -> str:
        """Key of its document."""
        origin = self.origin[-_ORIGIN_DIGITS:]
        return f"{self.annotation.episode_id}/{origin}/{self.annotation.annotation_id}"


def check_people(trusted: Collection[str], people: Collection[str]) -> None:
    """Raise RequestError where a file has no answers of somebody who is to be trusted."""
    for name in trusted:
        if name not in people:
            names = ", ".join(sorted(people)) or "nobody"
            raise RequestError(
                f"the file has no answers of {name!r}",
                f"{did_you_mean(name, people)}there are those of: {names}",
            )


def keep_foreign_answers(log: AnnotationStore, answers: Iterable[ForeignAnswer]) -> None:
    """Keep answers where nothing counts them; what the log has already is left out. Raises StoreError."""
    for chunk in batched(answers, _ANSWERS_PER_WRITE):
        producers = {answer.producer.maker_id: answer.producer for answer in chunk}
        episodes = sorted({answer.annotation.episode_id for answer in chunk})
        logged = log.find_annotations(episodes, maker_ids=list(producers))
        known = {annotation.annotation_id for annotation in logged}
        documents: dict[str, Json] = {
            answer.key: {"origin": answer.origin, "row": list[Json](annotation_to_row(answer.annotation))}
            for answer in chunk
            if answer.annotation.annotation_id not in known
        }
        if documents:
            producer_documents = {
                f"{_PRODUCERS}{id}": decode_json(producer_to_text(producer))
                for id, producer in producers.items()
            }
            log.put_documents(_COLLECTION, documents | producer_documents)


def read_foreign_answers(log: AnnotationStore, episode_id: str = "") -> Iterator[ForeignAnswer]:
    """The answers that came in files, episode by episode; of one episode if named. Raises StoreError."""
    documents = log.find_documents(_COLLECTION, f"{episode_id}/" if episode_id else "")
    producers: dict[str, Producer] | None = None
    trusted: set[tuple[str, str]] = set()
    for key, document in documents:
        if key.startswith(_PRODUCERS):
            continue
        if producers is None:
            producers, trusted = _read_producers(log), _trusted_people(read_history(log))
        fields = cast("dict[str, Any]", document)
        annotation, origin = annotation_from_row(AnnotationRow(*fields["row"])), str(fields["origin"])
        producer = producers[annotation.maker_id]
        is_trusted = (origin, person_of(producer)) in trusted
        yield ForeignAnswer(annotation=annotation, producer=producer, origin=origin, counts=is_trusted)


def list_uncounted_answers(log: AnnotationStore, episode_id: str = "") -> Iterator[ForeignAnswer]:
    """The last word of each person of each file that nobody trusts, but what was taken back there."""
    for _, members in groupby(
        read_foreign_answers(log, episode_id), key=lambda answer: answer.annotation.episode_id
    ):
        by_origin: dict[str, dict[str, ForeignAnswer]] = {}
        for answer in members:
            if not answer.counts:
                by_origin.setdefault(answer.origin, {})[answer.annotation.annotation_id] = answer
        for by_id in by_origin.values():
            newest = keep_newest_annotations(_in_order(answer.annotation for answer in by_id.values()))
            shown = (item for item in newest if not item.is_withdrawn and UNCHANGED not in item.value)
            yield from (by_id[item.annotation_id] for item in shown)


def count_uncounted_answers(log: AnnotationStore, origin: str = "") -> dict[str, int]:
    """How many answers from elsewhere do not count, by person; of one file if named."""
    uncounted = (answer for answer in list_uncounted_answers(log) if origin in ("", answer.origin))
    return dict(sorted(Counter(person_of(answer.producer) for answer in uncounted).items()))


def trust_answers(log: AnnotationStore, origin: str, people: Collection[str], person: str) -> Action | None:
    """Let the answers of some people in a file count; `undo` takes that back. `Stores.sync` shows it.

    Args:
        log: The log.
        origin: The file, see `file_origin`; its answers were kept before.
        people: Names of the people.
        person: Who trusts them.

    Returns:
        The action; None where their answers count already, or there are none.
    """
    new = {
        answer.key: person_of(answer.producer)
        for answer in read_foreign_answers(log)
        if answer.origin == origin and not answer.counts and person_of(answer.producer) in people
    }
    if not new:
        return None
    details: dict[str, Json] = {"of": list[Json](sorted(set(new.values()))), "origin": origin}
    action = record_action(log, "trust_answers", person, count=len(new), details=details)
    follow_trust(log, action, counts=True)
    return action


def follow_trust(log: AnnotationStore, action: Action, *, counts: bool) -> None:
    """Add the answers that an action trusts to the log, or take them back where an undo takes back the action.

    Args:
        log: The log.
        action: The action of `trust_answers`.
        counts: Whether it counts now.
    """
    origin, people = action.details["origin"], cast("list[str]", action.details["of"])
    answers = (
        answer
        for answer in read_foreign_answers(log)
        if answer.origin == origin and person_of(answer.producer) in people
    )
    for episode_id, members in groupby(answers, key=lambda answer: answer.annotation.episode_id):
        producers, annotations = dict[str, Producer](), list[Annotation]()
        for answer in members:
            producers[answer.producer.maker_id] = answer.producer
            annotations.append(answer.annotation)
        chains: dict[str, list[Annotation]] = {}
        for annotation in log.find_annotations([episode_id], maker_ids=list(producers)):
            chains.setdefault(annotation.address, []).append(annotation)
        if counts:
            for producer in producers.values():
                log.add_producer(with_known_columns(log, producer))
            log.append(_answers_to_add(_in_order(annotations), chains, str(origin)))
        else:
            log.append(
                _answers_to_take_back({annotation.annotation_id for annotation in annotations}, chains)
            )


def with_known_columns(log: AnnotationStore, producer: Producer) -> Producer:
    """A producer of a file as the log is to have it: what the log knows stays, and new columns come after it."""
    known = log.producers().get(producer.maker_id)
    if known is None:
        return producer
    names = {column.name for column in known.columns}
    return replace(
        known, columns=(*known.columns, *(column for column in producer.columns if column.name not in names))
    )


def revised(annotation: Annotation, value: Any) -> Annotation:
    """The revision of an answer that is made now."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(annotation, value=value, created=created, revision=time.time_ns())


def _answers_to_add(
    annotations: Sequence[Annotation], chains: dict[str, list[Annotation]], origin: str
) -> list[Annotation]:
    """The answers of an episode that the log lacks, in order; what an undo took back is said again."""
    logged = {annotation.annotation_id for chain in chains.values() for annotation in chain}
    added = [
        annotation
        if annotation.is_withdrawn
        else replace(annotation, value={**annotation.value, ORIGIN: origin})
        for annotation in annotations
        if annotation.annotation_id not in logged
    ]
    for last in keep_newest_annotations(annotations):
        counting = map(original_answer_id, counting_answers(chains.get(last.address, ())))
        if last.annotation_id in logged and not last.is_withdrawn and last.annotation_id not in counting:
            added.append(revised(last, {**last.value, ORIGIN: origin, RESTORES: original_answer_id(last)}))
    return added


def _answers_to_take_back(ids: set[str], chains: dict[str, list[Annotation]]) -> list[Annotation]:
    """Revisions after which none of some answers counts, and what was said before them counts again."""
    revisions = []
    for chain in chains.values():
        counting = counting_answers(chain)
        if counting and original_answer_id(counting[-1]) in ids:
            revisions.append(say_earlier(counting, ids))
    return revisions


def say_earlier(counting: Sequence[Annotation], ids: Collection[str]) -> Annotation:
    """The revision by which the last answer that is none of some counts again, or nothing does where there is none."""
    earlier = (answer for answer in reversed(counting[:-1]) if original_answer_id(answer) not in ids)
    last = next(earlier, None)
    if last is None:
        return revised(counting[-1], WITHDRAWN)
    return revised(last, {**last.value, RESTORES: original_answer_id(last)})


def _in_order(annotations: Iterable[Annotation]) -> list[Annotation]:
    """Annotations in the order in which they were made: a revision grows with time."""
    return sorted(annotations, key=lambda annotation: annotation.revision)


def _trusted_people(history: ActionHistory) -> set[tuple[str, str]]:
    """Files and people whose answers there count."""
    return {
        (str(action.details["origin"]), person)
        for action in history.effective(("trust_answers",))
        for person in cast("list[str]", action.details["of"])
    }


def _read_producers(log: AnnotationStore) -> dict[str, Producer]:
    import json

    documents = log.find_documents(_COLLECTION, _PRODUCERS)
    producers = (producer_from_text(json.dumps(document)) for _, document in documents)
    return {producer.maker_id: producer for producer in producers}
