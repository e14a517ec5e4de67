"""What a person says of an episode, a segment or a text: stored at once with the name, and taken back by its id."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Column, Producer
from ares.errors import RequestError
from ares.review.labels import (
    PreparedAnswer,
    person_settings,
    prepare_correction,
    prepare_ruling,
    sign_annotation,
    store_prepared,
    withdraw_copies,
)
from ares.rubric import WHOLE, Ruling, Verdict, make_slot_columns, slots_from_json
from ares.store import (
    batched,
    conjunction,
    counting_answers,
    ids_filter,
    in_condition,
    keep_newest_annotations,
    original_answer_id,
    quote_literal,
    read_foreign_answers,
    say_earlier,
)

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


# Questions that are no criterion.
SUCCESS, TEXT, INSTRUCTION, ACCEPTABLE = "success", "text", "instruction", "acceptable"
_VERDICTS: Mapping[str, tuple[str, ...]] = {SUCCESS: ("success", "failure", "unsure"), TEXT: ("",)}
_USUAL_VERDICTS = ("met", "unmet", "unsure")
# Key of the answer in the value of its annotation.
_ANSWER = "answer"
_CAPTION = "caption"
_LONGEST_TEXT, _EPISODES_PER_READ = 4_000, 2_000
_SUCCESS_COLUMNS = (
    Column(
        name="person_success",
        type="bool",
        meaning="Whether the episode succeeded, as a person says; empty where the person cannot tell.",
        is_outcome=True,
    ),
    Column(name="failure_kind", type="string", meaning="Kind of the failure that a person saw."),
    Column(name="failure_severity", type="string", meaning="How bad the failure is that a person saw."),
)
_INSTRUCTION_COLUMNS = (
    Column(
        name="instruction_fits",
        type="bool",
        meaning="Whether the instruction is of this episode, as a person says; empty where the person cannot tell.",
    ),
    Column(
        name="corrected_instruction",
        type="string",
        meaning="What a person says in place of the instruction of the source.",
    ),
)
# Annotators of what is said of whole episodes, by question.
_EPISODE_LABELS: Mapping[str, tuple[str, tuple[Column, ...]]] = {
    SUCCESS: ("success_label", _SUCCESS_COLUMNS),
    INSTRUCTION: ("instruction_label", _INSTRUCTION_COLUMNS),
}

# Annotators of what people say.
PERSON_ANNOTATORS = ("ruling", *(name for name, _ in _EPISODE_LABELS.values()))
# Columns that only people fill.
PERSON_COLUMNS = frozenset(column.name for _, columns in _EPISODE_LABELS.values() for column in columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person says of one episode, segment or text.

    Attributes:
        question: "success", "text" (edited text or slots), "instruction", "acceptable", or a criterion such as "VERB".
        subject_id: Id of the episode for "success" and "instruction"; else of the annotation that has the text, or of
            the segment that it is shown on.
        subject_kind: "episode", "annotation" or "segment"; a "text" of an episode is its caption.
        verdict: "met", "unmet" or "unsure"; for "success" "success", "failure" or "unsure"; for "text" "".
        person: Who says it.
        reason: Why, in the person's words, or "".
        failure_kind: For "success", one of the lab's list, or "".
        severity: For "success", one of the lab's list, or "".
        text: The new text, for "text" and a corrected instruction.
        slots: The new slots by name, for "text".
        queue: Name of the queue in which it was asked, or "".
        item: Position of the item in the queue, from 0.
        drawn: Why it was asked: "random", "worth", "repeat", or "" outside a queue.
        shown: Whether the clip was shown before; an answer without it measures nothing.
    """

    question: str
    subject_id: str
    subject_kind: str
    verdict: str
    person: str
    reason: str = ""
    failure_kind: str = ""
    severity: str = ""
    text: str = ""
    slots: Mapping[str, str] = field(default_factory=dict)
    queue: str = ""
    item: int = 0
    drawn: str = ""
    shown: bool = False

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON, for the log and for files."""
        return {**asdict(self), "slots": dict(self.slots)}


def read_answer(annotation: Annotation) -> Answer | None:
    """The answer that an annotation stores; None for any other annotation, and for one that was taken back."""
    document = annotation.value.get(_ANSWER)
    if not isinstance(document, Mapping):
        return None
    known = {name: value for name, value in document.items() if name in Answer.__dataclass_fields__}
    return Answer(**known)  # type: ignore[arg-type]  # `to_json` wrote it


def give_answer(stores: Stores, answer: Answer) -> Annotation:
    """Store an answer and let the tables show it: the grade is derived again, filters and counts follow.

    Args:
        stores: Stores of the workspace.
        answer: What the person says; it takes the place of what the same person said of the same before.

    Returns:
        The annotation that holds it; `withdraw_answer` and `ares undo` take it back by its id.

    Raises:
        RequestError: The question, verdict or subject does not exist, or the person has no name.
        StoreError: It cannot be stored.
    """
    annotation = store_answer(stores, answer)
    stores.sync()
    return annotation


def store_answer(stores: Stores, answer: Answer) -> Annotation:
    """As `give_answer`, in the log alone: the tables show it after `Stores.sync`."""
    return store_prepared(stores, prepare_answer(stores, answer))


def prepare_answer(stores: Stores, answer: Answer) -> PreparedAnswer:
    """What `store_answer` would store; errors are those of `give_answer`."""
    _check_answer(stores, answer)
    person, document = answer.person, {_ANSWER: answer.to_json()}
    if answer.question in _EPISODE_LABELS:
        return _prepare_episode_label(stores, answer)
    if answer.question == TEXT and answer.subject_kind == "episode":
        return _prepare_caption(stores, answer)
    subject = find_subject(stores, answer.subject_id, answer.subject_kind)
    if answer.question == TEXT:
        value = {**_edited_value(subject, answer), **document}
        return _accept_own_caption(stores, prepare_correction(stores, subject, value, person))
    verdict = Verdict(answer.verdict.upper())
    is_whole = answer.question == ACCEPTABLE
    criterion = answer.question.upper() if is_whole else answer.question
    ruling = Ruling(
        criterion=criterion, verdict=verdict, source="person", judge=person.strip(), reason=answer.reason
    )
    if is_whole:
        return prepare_ruling(stores, subject, ruling, WHOLE, document)
    category, rubric, columns = _find_criterion(stores, subject, criterion)
    return prepare_ruling(stores, subject, ruling, category, {**rubric, **document}, columns)


def withdraw_answer(stores: Stores, annotation_id: str, person: str) -> None:
    """Take an answer back and let the tables show it; errors are those of `take_back`."""
    take_back(stores, annotation_id, person)
    stores.sync()


def take_back(stores: Stores, annotation_id: str, person: str) -> None:
    """Take an answer back, in the log alone: what the same person had said of the same before counts again.

    Args:
        stores: Stores of the workspace.
        annotation_id: Id of the annotation that `give_answer` returned.
        person: Who takes it back; nobody takes back what somebody else said.

    Raises:
        RequestError: There is no such answer, it is of somebody else, or it does not count any more.
        StoreError: The log cannot be written.
    """
    annotation = stores.annotations.get_annotation(annotation_id)
    producer = stores.annotations.producers().get(annotation.maker_id) if annotation else None
    if annotation is None or producer is None or producer.kind != "person":
        raise RequestError(f"no answer {annotation_id!r}", "`ares review list` shows them")
    if producer.settings.get("person") != person.strip():
        raise RequestError(
            f"the answer is of {producer.settings.get('person')}", f"{person} cannot take it back"
        )
    same_producer = stores.annotations.find_annotations(
        [annotation.episode_id], maker_ids=[annotation.maker_id]
    )
    counting = counting_answers(other for other in same_producer if other.address == annotation.address)
    if not counting or annotation_id not in (counting[-1].annotation_id, original_answer_id(counting[-1])):
        raise RequestError(f"answer {annotation_id} does not count any more", "it was changed or taken back")
    foreign = read_foreign_answers(stores.annotations, annotation.episode_id)
    uncounted = {answer.annotation.annotation_id for answer in foreign if not answer.counts}
    restored = say_earlier(counting, uncounted)
    store_prepared(stores, _accept_own_caption(stores, PreparedAnswer(producer, [restored])))
    if restored.is_withdrawn and producer.fills_segments:
        withdraw_copies(stores, producer, annotation.episode_id)


def list_answers(stores: Stores, *, queue: str = "", person: str = "") -> Iterator[tuple[Annotation, Answer]]:
    """The answers that count, with their annotations, episode by episode; of one queue and one person if named."""
    log = stores.annotations
    people = [producer for producer in log.producers().values() if producer.kind == "person"]
    selected = [producer for producer in people if not person or producer.settings.get("person") == person]
    ids = {
        episode_id
        for producer in selected
        for episode_id in log.find_episodes(producer.annotator, producer.maker_id)
    }
    for chunk in batched(sorted(ids), _EPISODES_PER_READ):
        annotations = log.find_annotations(chunk, maker_ids=[producer.maker_id for producer in selected])
        for annotation in keep_newest_annotations(annotations):
            answer = read_answer(annotation)
            if answer and queue in ("", answer.queue):
                yield annotation, answer


def find_last_answer(stores: Stores, episode_id: str, person: str) -> tuple[Annotation, Answer] | None:
    """What a person said last of an episode and its texts and did not take back; None where there is nothing.

    Args:
        stores: Stores of the workspace.
        episode_id: The episode.
        person: Who said it.
    """
    annotations = _annotations_of_person(stores, episode_id, person)
    positions = {annotation.annotation_id: number for number, annotation in enumerate(annotations)}
    by_address: dict[object, list[Annotation]] = {}
    for annotation in annotations:
        by_address.setdefault((annotation.maker_id, annotation.address), []).append(annotation)
    counting = [members[-1] for group in by_address.values() if (members := counting_answers(group))]
    # What an undo let count again was said when it was said first.
    counting.sort(key=lambda annotation: positions.get(original_answer_id(annotation), -1))
    answers = ((annotation, read_answer(annotation)) for annotation in reversed(counting))
    return next(((annotation, answer) for annotation, answer in answers if answer), None)


def find_earlier_answer(
    stores: Stores, episode_id: str, question: str, subject_id: str, person: str
) -> Answer | None:
    """The newest answer of a person to one question, also one that was taken back: its reason is written already.

    Args:
        stores: Stores of the workspace.
        episode_id: The episode that the question is about.
        question: As in `Answer`.
        subject_id: As in `Answer`.
        person: Who said it.
    """
    answers = map(read_answer, reversed(_annotations_of_person(stores, episode_id, person)))
    key = (question, subject_id)
    return next((item for item in answers if item and (item.question, item.subject_id) == key), None)


def _annotations_of_person(stores: Stores, episode_id: str, person: str) -> list[Annotation]:
    """The annotations that a person made of an episode, in the order of the log."""
    producers = stores.annotations.producers().values()
    maker_ids = [
        producer.maker_id
        for producer in producers
        if producer.kind == "person" and producer.settings.get("person") == person.strip()
    ]
    return list(stores.annotations.find_annotations([episode_id], maker_ids=maker_ids)) if maker_ids else []


def find_subject(stores: Stores, subject_id: str, subject_kind: str) -> Annotation:
    """The annotation with the text that a person speaks of, by its id or by that of the segment it is shown on.

    Raises:
        RequestError: There is none.
    """
    if subject_kind == "segment":
        where = in_condition("segment_id", [subject_id])
        rows = stores.tables.segments.scan(["annotation_id", "text"], where).to_pylist()
        subject_id = next((row["annotation_id"] for row in rows if row["text"]), "")
    annotation = stores.annotations.get_annotation(subject_id) if subject_id else None
    if annotation is None:
        raise RequestError("nothing is said there", f"no {subject_kind} {subject_id!r} with a text")
    return annotation


def _check_answer(stores: Stores, answer: Answer) -> None:
    """Raise RequestError for what nobody can say."""
    person_settings(answer.person)
    verdicts = _VERDICTS.get(answer.question, _USUAL_VERDICTS)
    if answer.verdict not in verdicts:
        allowed = ", ".join(verdicts) or "no verdict"
        raise RequestError(f"{answer.question} cannot be {answer.verdict!r}", f"there are: {allowed}")
    if max(len(answer.text), len(answer.reason)) > _LONGEST_TEXT:
        raise RequestError("a text is too long", f"at most {_LONGEST_TEXT:,} characters")
    if answer.question == TEXT and not answer.text.strip():
        raise RequestError("the new text is empty", "to refuse a text, say that it is not acceptable")
    _check_choice("kind of failure", answer.failure_kind, stores.settings.failure_kinds)
    _check_choice("severity", answer.severity, stores.settings.failure_severities)


def _check_choice(name: str, choice: str, choices: Sequence[str]) -> None:
    if choice and choice not in choices:
        raise RequestError(f"no {name} {choice!r}", f"there are: {', '.join(choices)}")


def _prepare_episode_label(stores: Stores, answer: Answer) -> PreparedAnswer:
    """What is said of a whole episode."""
    name, columns = _EPISODE_LABELS[answer.question]
    producer = Producer(
        annotator=name,
        version="1",
        settings=person_settings(answer.person),
        columns=columns,
        kind="person",
    )
    value: dict[str, Json] = {**_label_columns(answer), _ANSWER: answer.to_json()}
    draft = _draft_about_episode(stores, answer, name, value, producer)
    return PreparedAnswer(producer, [sign_annotation(producer, draft)])


def _draft_about_episode(
    stores: Stores, answer: Answer, name: str, value: Mapping[str, Json], producer: Producer
) -> Annotation:
    """What a person says of a whole episode. Raises RequestError where there is no such episode."""
    ids = ids_filter([answer.subject_id])
    row = next(iter(stores.tables.episodes.read_columns(["duration_seconds"], ids).to_pylist()), None)
    if row is None or answer.subject_kind != "episode":
        raise RequestError("no such episode", f"{answer.subject_kind} {answer.subject_id!r}")
    return Annotation(
        episode_id=answer.subject_id,
        name=name,
        value=value,
        maker_id=producer.maker_id,
        subject=answer.subject_id,
        start_seconds=0.0,
        stop_seconds=float(row["duration_seconds"] or 0.0),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        revision=time.time_ns(),
    )


def _prepare_caption(stores: Stores, answer: Answer) -> PreparedAnswer:
    """The caption of a whole episode as a person writes it, in place of the shown one where there is one."""
    where = conjunction([ids_filter([answer.subject_id]), f"annotator = {quote_literal(_CAPTION)}"])
    shown = stores.tables.segments.scan(["annotation_id", "start_seconds", "stop_seconds"], where).to_pylist()
    if shown:
        longest = max(shown, key=lambda row: row["stop_seconds"] - row["start_seconds"])
        subject = replace(answer, subject_kind="annotation", subject_id=longest["annotation_id"])
        return prepare_answer(stores, subject)
    producer = Producer(
        annotator=_CAPTION,
        version="1",
        settings=person_settings(answer.person),
        columns=(Column(name=_CAPTION, type="string", meaning="Caption of the whole episode."),),
        kind="person",
        fills_segments=True,
    )
    known = stores.annotations.producers().get(producer.maker_id)
    text = answer.text.strip()
    value: dict[str, Json] = {"text": text, _CAPTION: text, "author": "person", _ANSWER: answer.to_json()}
    draft = _draft_about_episode(stores, answer, _CAPTION, value, producer)
    prepared = PreparedAnswer(known or producer, [sign_annotation(producer, draft)])
    return _accept_own_caption(stores, prepared)


def _accept_own_caption(stores: Stores, prepared: PreparedAnswer) -> PreparedAnswer:
    """What a person wrote as a caption, with the ruling that it is true: it is no more a claim of a model."""
    caption, person = prepared.annotations[0], str(prepared.producer.settings.get("person", ""))
    if caption.name != _CAPTION or caption.is_withdrawn or _question_of(caption) != TEXT:
        return prepared
    ruling = Ruling(
        criterion=ACCEPTABLE.upper(),
        verdict=Verdict.MET,
        source="person",
        judge=person,
        reason=f"written by {person}",
    )
    return prepared._replace(beside=prepare_ruling(stores, caption, ruling, WHOLE, {}))


def _question_of(annotation: Annotation) -> str:
    answer = read_answer(annotation)
    return answer.question if answer else ""


def _label_columns(answer: Answer) -> dict[str, Json]:
    """The columns that an answer about an episode fills; "cannot tell" leaves its column empty."""
    is_good = {"success": True, "met": True, "failure": False, "unmet": False}.get(answer.verdict)
    if answer.question == INSTRUCTION:
        columns: dict[str, Json] = {
            "instruction_fits": is_good,
            "corrected_instruction": answer.text.strip() or None,
        }
    else:
        columns = {
            "person_success": is_good,
            "failure_kind": answer.failure_kind or None,
            "failure_severity": answer.severity or None,
        }
    return {name: value for name, value in columns.items() if value is not None}


def _edited_value(annotation: Annotation, answer: Answer) -> dict[str, Json]:
    """The value of an annotation with a person's text; slots of the old text say nothing of the new one."""
    slots = slots_from_json(dict(answer.slots))
    kept = ("style", "name")
    value = {name: annotation.value[name] for name in kept if name in annotation.value}
    text = answer.text.strip()
    whole: dict[str, Json] = {"caption": text} if "caption" in annotation.value else {}
    described: dict[str, Json] = {"slots": dict(answer.slots), **make_slot_columns(slots)} if slots else {}
    return {**value, "text": text, "author": "person", **whole, **described}


def _find_criterion(
    stores: Stores, subject: Annotation, criterion: str
) -> tuple[str, dict[str, Json], Sequence[Column]]:
    """The category of a criterion, the rubric that has it and its columns, of the newest grade of an annotation."""
    for annotation in reversed(stores.annotations.find_annotations([subject.episode_id])):
        rulings = annotation.value.get("rulings")
        is_grade = annotation.subject == subject.annotation_id and not annotation.part
        for ruling in rulings if is_grade and isinstance(rulings, list) else []:
            if isinstance(ruling, Mapping) and ruling.get("criterion") == criterion:
                rubric = {name: annotation.value.get(name, "") for name in ("rubric", "rubric_hash")}
                return (
                    str(ruling["category"]),
                    rubric,
                    stores.annotations.producers()[annotation.maker_id].columns,
                )
    raise RequestError(
        f"no criterion {criterion!r}",
        "no judge has ruled on it here; say whether the text is acceptable, or grade it first",
    )
