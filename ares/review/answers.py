"""What a person says of an episode, a segment or a text: stored at once with the name, and taken back by its id."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ares.annotation import ATTRIBUTE_PREFIX, OUTCOME_COLUMNS, Annotation, Column, Producer
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
    keep_newest_annotations,
    original_answer_id,
    quote_literal,
    read_foreign_answers,
    read_rulings,
    say_earlier,
)

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


# Questions that are no criterion.
SUCCESS, TEXT, INSTRUCTION, ACCEPTABLE = "success", "text", "instruction", "acceptable"
# Outcomes that are neither; the share of the task that was done may stand in the text of the answer.
OTHER_OUTCOMES = ("partial", "aborted")
_VERDICTS: Mapping[str, tuple[str, ...]] = {
    SUCCESS: ("success", "failure", "unsure", *OTHER_OUTCOMES),
    TEXT: ("",),
}
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
    *OUTCOME_COLUMNS,
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
_CAPTION_COLUMN = Column(name=_CAPTION, type="string", meaning="Caption of the whole episode.")
# Annotators of what is said of whole episodes, by question.
_EPISODE_LABELS: Mapping[str, tuple[str, tuple[Column, ...]]] = {
    SUCCESS: ("success_label", _SUCCESS_COLUMNS),
    INSTRUCTION: ("instruction_label", _INSTRUCTION_COLUMNS),
}

# Annotator of what people say of the attributes of episodes: whether the answer of a model is true.
ATTRIBUTE_LABEL = "attribute_label"
# Annotators of what people say.
PERSON_ANNOTATORS = ("ruling", ATTRIBUTE_LABEL, *(name for name, _ in _EPISODE_LABELS.values()))
# Columns that only people fill.
PERSON_COLUMNS = frozenset(
    column.name
    for _, columns in _EPISODE_LABELS.values()
    for column in columns
    if column not in OUTCOME_COLUMNS
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person says of one episode, segment or text.

    Attributes:
        question: "success", "text" (edited text or slots), "instruction", "acceptable", a criterion such as "VERB", or
            an attribute such as "attr_lighting".
        subject_id: Id of the annotation that has the text; else of the episode.
        subject_kind: "episode" or "annotation"; a "text" of an episode is its caption.
        verdict: "met", "unmet" or "unsure"; for "success" "success", "failure", "partial", "aborted" or "unsure"; for
            "text" "".
        person: Who says it.
        reason: Why, in the person's words, or "".
        failure_kind: For "success", one of the lab's list, or "".
        severity: For "success", one of the lab's list, or "".
        text: The new text, for "text" and a corrected instruction; the answer that is true or not, for an attribute.
        slots: The new slots by name, for "text".
        queue: Name of the queue in which it was asked, or "".
        item: Position of the item in the queue, from 0.
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
    shown: bool = False

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON, for the log and for files."""
        return {**asdict(self), "slots": dict(self.slots)}


def is_about_attribute(question: str) -> bool:
    """Whether a question is whether an attribute of an episode is true."""
    return question.startswith(ATTRIBUTE_PREFIX)


def format_attribute(value: Json) -> str:
    """The value of an attribute as people are asked about it, and as tables cast it to a text."""
    import pyarrow as pa

    return ", ".join(map(str, value)) if isinstance(value, list) else str(pa.scalar(value).cast(pa.string()))


def is_about_episode(question: str) -> bool:
    """Whether a question is about an episode, and not about a text."""
    return question in _EPISODE_LABELS or is_about_attribute(question)


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
    (annotation,) = store_prepared(stores, prepare_answer(stores, answer))
    stores.sync()
    return annotation


class DescribedEpisodes(NamedTuple):
    """What is read of episodes to answer questions about them.

    Attributes:
        durations: Seconds, by id of the episode.
        captions: Id of the annotation with the shown caption, by id of the episode that has one.
    """

    durations: Mapping[str, float]
    captions: Mapping[str, str]


def read_described(stores: Stores, episode_ids: Sequence[str]) -> DescribedEpisodes:
    """What is read of some episodes, once for many answers about them; pass some thousands. Raises StoreError."""
    ids = ids_filter(episode_ids)
    rows = stores.tables.episodes.read_columns(["episode_id", "duration_seconds"], ids).to_pylist()
    columns = ["episode_id", "annotation_id", "start_seconds", "stop_seconds"]
    where = conjunction([ids, f"annotator = {quote_literal(_CAPTION)}"])
    shown = stores.tables.segments.scan(columns, where).to_pylist()
    # Of several the longest counts.
    shown.sort(key=lambda row: row["stop_seconds"] - row["start_seconds"])
    return DescribedEpisodes(
        {row["episode_id"]: float(row["duration_seconds"] or 0.0) for row in rows},
        {row["episode_id"]: row["annotation_id"] for row in shown},
    )


def prepare_answer(
    stores: Stores, answer: Answer, described: DescribedEpisodes | None = None
) -> PreparedAnswer:
    """What `give_answer` would store; errors are those of `give_answer`.

    Args:
        stores: Stores of the workspace.
        answer: What the person says.
        described: What was read of the episode that it is about; None reads it.
    """
    _check_answer(stores, answer)
    person, document = answer.person, {_ANSWER: answer.to_json()}
    if is_about_episode(answer.question) or (answer.question, answer.subject_kind) == (TEXT, "episode"):
        described = described or read_described(stores, [answer.subject_id])
        return _prepare_about_episode(stores, answer, described)
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
    log, selected = stores.annotations, _find_producers(stores, person or None)
    ids = {
        episode_id
        for producer in selected
        for episode_id in log.find_episodes(producer.annotator, producer.maker_id)
    }
    for chunk in batched(sorted(ids), _EPISODES_PER_READ):
        pairs = read_answers(stores, chunk, person or None)
        yield from (pair for pair in pairs if queue in ("", pair[1].queue))


def read_answers(
    stores: Stores, episode_ids: Collection[str], person: str | None = None
) -> Iterator[tuple[Annotation, Answer]]:
    """Yield the answers about some episodes that count, of all people or of one; pass some thousands."""
    people = [producer.maker_id for producer in _find_producers(stores, person)] if episode_ids else []
    stored = stores.annotations.find_annotations(list(episode_ids), maker_ids=people) if people else ()
    for annotation in keep_newest_annotations(stored):
        if (answer := read_answer(annotation)) is not None:
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
    maker_ids = [producer.maker_id for producer in _find_producers(stores, person.strip())]
    return list(stores.annotations.find_annotations([episode_id], maker_ids=maker_ids)) if maker_ids else []


def _find_producers(stores: Stores, person: str | None) -> list[Producer]:
    """The producers of a person; those of all people for None."""
    return [
        producer
        for producer in stores.annotations.producers().values()
        if producer.kind == "person" and person in (None, producer.settings.get("person"))
    ]


def find_subject(stores: Stores, subject_id: str, subject_kind: str) -> Annotation:
    """The annotation with the text that a person speaks of.

    Raises:
        RequestError: There is none.
    """
    annotation = stores.annotations.get_annotation(subject_id) if subject_kind == "annotation" else None
    if annotation is None:
        raise RequestError("nothing is said there", f"no {subject_kind} {subject_id!r} with a text")
    return annotation


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def _check_answer(stores: Stores, answer: Answer) -> None:
    """Raise RequestError for what nobody can say."""
    person_settings(answer.person)
    verdicts = _VERDICTS.get(answer.question, _USUAL_VERDICTS)
    if answer.verdict not in verdicts:
        allowed = ", ".join(verdicts) or "no verdict"
        raise RequestError(f"{answer.question} cannot be {answer.verdict!r}", f"there are: {allowed}")
    if max(len(answer.text), len(answer.reason)) > _LONGEST_TEXT:
        raise RequestError("a text is too long", f"at most {_LONGEST_TEXT:,} characters")
    if answer.question == SUCCESS and answer.text and not _is_share(answer.text):
        raise RequestError("the share of a task is a number from 0 to 1", f"got {answer.text!r}")
    if answer.question == TEXT and not answer.text.strip():
        raise RequestError("the new text is empty", "to refuse a text, say that it is not acceptable")
    _check_choice("kind of failure", answer.failure_kind, stores.settings.failure_kinds)
    _check_choice("severity", answer.severity, stores.settings.failure_severities)


def _check_choice(name: str, choice: str, choices: Sequence[str]) -> None:
    if choice and choice not in choices:
        raise RequestError(f"no {name} {choice!r}", f"there are: {', '.join(choices)}")


def _prepare_about_episode(stores: Stores, answer: Answer, described: DescribedEpisodes) -> PreparedAnswer:
    """What is said of a whole episode; its caption in place of the shown one where there is one."""
    is_caption, id = answer.question == TEXT, answer.subject_id
    if is_caption and (shown := described.captions.get(id)):
        return prepare_answer(stores, replace(answer, subject_kind="annotation", subject_id=shown))
    if answer.subject_kind != "episode" or id not in described.durations:
        raise RequestError("no such episode", f"{answer.subject_kind} {id!r}")
    labels = {**_EPISODE_LABELS, TEXT: (_CAPTION, (_CAPTION_COLUMN,))}
    name, columns = labels.get(answer.question, (ATTRIBUTE_LABEL, ()))
    producer = Producer(
        annotator=name,
        version="1",
        settings=person_settings(answer.person),
        columns=columns,
        kind="person",
        fills_segments=is_caption,
    )
    draft = Annotation(
        episode_id=id,
        name=name,
        value={**_label_columns(answer), _ANSWER: answer.to_json()},
        maker_id=producer.maker_id,
        subject=id,
        start_seconds=0.0,
        stop_seconds=described.durations[id],
        created="",
        # What is said of one value is not said of another one.
        part=f"{answer.question} {answer.text}" if name == ATTRIBUTE_LABEL else "",
    )
    # Who has corrected captions of a model has its columns, too.
    known = stores.annotations.producers().get(producer.maker_id) if is_caption else None
    prepared = PreparedAnswer(known or producer, [sign_annotation(producer, draft)])
    return _accept_own_caption(stores, prepared)


def _accept_own_caption(stores: Stores, prepared: PreparedAnswer) -> PreparedAnswer:
    """What a person wrote as a caption, with the ruling that it is true: it is no more a claim of a model."""
    caption, person = prepared.annotations[0], str(prepared.producer.settings.get("person", ""))
    answer = read_answer(caption)
    if caption.name != _CAPTION or caption.is_withdrawn or answer is None or answer.question != TEXT:
        return prepared
    ruling = Ruling(
        criterion=ACCEPTABLE.upper(),
        verdict=Verdict.MET,
        source="person",
        judge=person,
        reason=f"written by {person}",
    )
    return prepared._replace(beside=prepare_ruling(stores, caption, ruling, WHOLE, {}))


def _label_columns(answer: Answer) -> dict[str, Json]:
    """The columns that an answer about an episode fills; "cannot tell" leaves its column empty."""
    if answer.question == TEXT:
        return {"text": answer.text.strip(), _CAPTION: answer.text.strip(), "author": "person"}
    if is_about_attribute(answer.question):
        return {}
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
            **_outcome_values(answer),
        }
    return {name: value for name, value in columns.items() if value is not None}


def _outcome_values(answer: Answer) -> dict[str, Json]:
    """OUTCOME_COLUMNS of an answer; all are empty where the person cannot tell."""
    if answer.verdict == "unsure":
        return {}
    share = float(answer.text) if answer.text else None
    return dict(
        zip((column.name for column in OUTCOME_COLUMNS), (answer.verdict, share, "person"), strict=True)
    )


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
        is_grade = annotation.subject == subject.annotation_id and not annotation.part
        for ruling in read_rulings(annotation.value) if is_grade else []:
            if ruling.get("criterion") == criterion:
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
