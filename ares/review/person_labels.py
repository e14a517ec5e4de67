"""Reads what people answered, item by item, beside what the judge says of the same; and stores what the audit says."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ares.review.answers import ACCEPTABLE, INSTRUCTION, SUCCESS, TEXT, read_answer
from ares.store import batched, ids_filter, keep_newest_annotations, original_answer_id

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.annotation import Annotation, Producer
    from ares.episode import Json
    from ares.review.answers import Answer
    from ares.store import Stores


MET, UNMET, UNSURE = "met", "unmet", "unsure"
# Annotators of what people say, see `answers.give_answer`.
PERSON_ANNOTATORS = ("ruling", "success_label", "instruction_label")
_EPISODES_PER_READ, _SIGNIFICANCE = 5_000, 0.05
_COMMON_VERDICTS: Mapping[str, str] = {
    "success": MET,
    "failure": UNMET,
    "acceptable": MET,
    "not_acceptable": UNMET,
    "true": MET,
    "false": UNMET,
}
RANDOM, _ADJUDICATED = "random", "adjudicate"
# Drawn at random within a stratum that was asked more or less than its share, see `allocation`.
ALLOCATED = "allocated"


class PersonAnswer(NamedTuple):
    """What one person says of an item.

    Attributes:
        person: Who.
        verdict: "met", "unmet" or "unsure".
        annotation_id: Id of the annotation that holds the answer.
        episode_id: The episode that it is about.
        drawn: Why it was asked, see `Answer.drawn`.
        queue: The queue in which it was asked, or "".
        stratum: What it was drawn from, or "".
    """

    person: str
    verdict: str
    annotation_id: str
    episode_id: str = ""
    drawn: str = ""
    queue: str = ""
    stratum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledItem:
    """One question about one subject, as people and the judge answer it.

    Attributes:
        question: "acceptable", "success", "instruction" or a criterion.
        subject_id: The episode, or the annotation with the text.
        episode_id: Its episode.
        dataset: Its dataset.
        answers: What people say, one answer for each person.
        before_adjudication: What each said before knowing that another one differs, as revisions of the log have it.
        judged: What the judge says: "met", "unmet", "unsure", or "" where none has judged it.
        rank: How sure the judge is that it is met, 0 to 1; None where it does not say.
        judge: Id of the producer of the judgement, or "".
        model: What the audit of instructions calls itself; "" for other judges, of which the log has the producers.
        captioner: Id of the producer of the text, or "".
        is_segment: Whether the text is about a segment.
    """

    question: str
    subject_id: str
    episode_id: str
    dataset: str
    answers: tuple[PersonAnswer, ...]
    before_adjudication: tuple[PersonAnswer, ...] = ()
    judged: str = ""
    rank: float | None = None
    judge: str = ""
    model: str = ""
    captioner: str = ""
    is_segment: bool = False

    @property
    def is_random(self) -> bool:
        """Whether it was drawn at random: what was asked for another reason says nothing of the rest."""
        return any(answer.drawn == RANDOM for answer in (*self.answers, *self.before_adjudication))

    @property
    def allocation(self) -> PersonAnswer | None:
        """The answer that was asked for because its stratum was asked more than others, at random within it."""
        answers = (*self.answers, *self.before_adjudication)
        return next((answer for answer in answers if answer.drawn == ALLOCATED), None)

    @property
    def truth(self) -> str:
        """What people say together: the adjudicator, else the word of all; "" where they differ."""
        decided = [answer.verdict for answer in self.answers if answer.drawn == _ADJUDICATED]
        verdicts = {decided[-1]} if decided else {answer.verdict for answer in self.answers}
        return verdicts.pop() if len(verdicts) == 1 else ""


def read_labelled_items(
    stores: Stores, *, question: str = "", dataset: str = "", where: str = ""
) -> Iterator[LabelledItem]:
    """Yield everything that people answered and did not take back, but edited texts.

    Args:
        stores: Stores of the workspace.
        question: Of this question alone; "" for all.
        dataset: Of this dataset alone; "" for all.
        where: SQL filter over the episode columns.

    Raises:
        RequestError: The filter is wrong.
        StoreError: The log cannot be read.
    """
    producers = stores.annotations.producers()
    episodes_by_name = (stores.annotations.find_episodes(name) for name in PERSON_ANNOTATORS)
    episodes = sorted(set().union(*episodes_by_name))
    for ids in batched(episodes, _EPISODES_PER_READ):
        condition = f"({ids_filter(ids)}){f' AND ({where})' if where else ''}"
        rows = stores.tables.episodes.read_columns(["episode_id", "dataset"], condition).to_pylist()
        datasets = {row["episode_id"]: row["dataset"] for row in rows if dataset in ("", row["dataset"])}
        annotations = stores.annotations.find_annotations(list(datasets))
        log = _read_answer_log(annotations, producers)
        log.audited = _read_audit_verdicts(stores, log.answers, datasets)
        for key in log.answers:
            if question in ("", key[0]):
                yield _make_item(log, key, datasets)


# Question and subject.
_Item = tuple[str, str]


def _read_audit_verdicts(
    stores: Stores, items: Iterable[_Item], datasets: Mapping[str, str]
) -> dict[str, AuditVerdict]:
    """What the audit said of the episodes whose instruction people were asked about."""
    subjects = {subject: datasets[subject] for question, subject in items if question == INSTRUCTION}
    return find_audit_verdicts(stores, subjects) if subjects else {}


@dataclass(slots=True)
class _AnswerLog:
    """Annotations by id, judgements by what they are about, and answers: those that count, and the earlier ones.

    What the audit of instructions said is by id of the episode.
    """

    by_id: dict[str, Annotation] = field(default_factory=dict)
    judgements: dict[_Item, Annotation] = field(default_factory=dict)
    answers: dict[_Item, list[PersonAnswer]] = field(default_factory=dict)
    earlier: dict[_Item, dict[str, PersonAnswer]] = field(default_factory=dict)
    audited: dict[str, AuditVerdict] = field(default_factory=dict)


def _read_answer_log(annotations: Sequence[Annotation], producers: Mapping[str, Producer]) -> _AnswerLog:
    """Sort the annotations of some episodes, which are in the order of the log."""
    log, graders = _AnswerLog(), _grading_producers(producers.values())
    for annotation in annotations:
        answer = read_answer(annotation)
        if answer is not None and answer.drawn != _ADJUDICATED:
            by_person = log.earlier.setdefault((answer.question, annotation.subject), {})
            by_person[answer.person.strip()] = _person_answer(answer, annotation)
    for annotation in keep_newest_annotations(annotations):
        answer = None if annotation.is_withdrawn else read_answer(annotation)
        if answer is not None and answer.question != TEXT:
            counting = log.answers.setdefault((answer.question, annotation.subject), [])
            counting.append(_person_answer(answer, annotation))
        elif answer is None and not annotation.is_withdrawn:
            log.by_id[annotation.annotation_id] = annotation
            _add_judgement(log, annotation, graders)
    return log


def _person_answer(answer: Answer, annotation: Annotation) -> PersonAnswer:
    return PersonAnswer(
        answer.person.strip(),
        _COMMON_VERDICTS.get(answer.verdict, answer.verdict),
        original_answer_id(annotation),
        annotation.episode_id,
        answer.drawn,
        answer.queue,
        answer.stratum,
    )


def _add_judgement(log: _AnswerLog, annotation: Annotation, graders: Collection[str]) -> None:
    if annotation.maker_id in graders and not annotation.part:
        log.judgements["grade", annotation.subject] = annotation
    elif annotation.name == SUCCESS:
        log.judgements[SUCCESS, annotation.subject] = annotation


def _grading_producers(producers: Iterable[Producer]) -> set[str]:
    """Ids of the producers of grades that are no people."""
    return {
        producer.maker_id
        for producer in producers
        if producer.kind != "person" and any(column.name == ACCEPTABLE for column in producer.columns)
    }


def _make_item(log: _AnswerLog, item: _Item, datasets: Mapping[str, str]) -> LabelledItem:
    (question, subject), counting = item, log.answers[item]
    kind = SUCCESS if question == SUCCESS else "grade"
    judgement, text = log.judgements.get((kind, subject)), log.by_id.get(subject)
    judged, rank = ("", None) if judgement is None else _read_judgement(judgement, question)
    audited = log.audited.get(subject) if question == INSTRUCTION else None
    if audited:
        judged, rank = audited.verdict, audited.rank
    earlier = log.earlier.get(item, {})
    return LabelledItem(
        question=question,
        subject_id=subject,
        episode_id=counting[0].episode_id,
        dataset=datasets[counting[0].episode_id],
        answers=tuple(counting),
        before_adjudication=tuple(earlier[answer.person] for answer in counting if answer.person in earlier),
        judged=judged,
        rank=rank,
        judge=audited.judge if audited else "" if judgement is None else judgement.maker_id,
        model=audited.model if audited else "",
        captioner="" if text is None else text.maker_id,
        is_segment=text is not None and text.subject_kind == "segment",
    )


def _read_judgement(annotation: Annotation, question: str) -> tuple[str, float | None]:
    """What a judge says of a question, and how sure it is that the answer is yes, 0 to 1."""
    value = annotation.value
    if question == SUCCESS:
        return common_verdict(value.get("success_verdict")), _as_number(value.get("success_probability"))
    if question == ACCEPTABLE:
        verdict = common_verdict(value.get("grade"))
        return verdict, signed_rank(verdict, _as_number(value.get("grade_margin")))
    rulings = value.get("rulings")
    for ruling in rulings if isinstance(rulings, list) else []:
        if isinstance(ruling, Mapping) and ruling.get("criterion") == question:
            verdict = common_verdict(ruling.get("verdict"))
            return verdict, signed_rank(verdict, _as_number(ruling.get("margin")))
    return "", None


def common_verdict(verdict: object) -> str:
    """ "met", "unmet", "unsure", or "" for what says nothing ("NA")."""
    text = str(verdict or "").lower()
    known = _COMMON_VERDICTS.get(text, text)
    return known if known in (MET, UNMET) else ("" if known in ("", "na") else UNSURE)


def signed_rank(verdict: str, margin: float | None) -> float | None:
    """A margin of a refusal counts against the item: .5 where nothing is decided."""
    if margin is None or verdict not in (MET, UNMET):
        return None
    return 0.5 + margin / 2 if verdict == MET else 0.5 - margin / 2


def _as_number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def count_verdicts(items: Iterable[LabelledItem]) -> dict[tuple[str, str], int]:
    """Items by what the judge and what people say; items on which people differ are left out."""
    return dict(Counter((item.judged, item.truth) for item in items if item.judged and item.truth))


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAgreement:
    """How often the word of one person did not stand where somebody else was asked the same.

    Attributes:
        person: Who.
        answers: Items that the person answered.
        compared: Those that somebody else answered, too, and on which people agree or an adjudicator has decided.
        overruled: Those of them on which the person had said otherwise before.
        others_compared: The same counts of all other people together.
        others_overruled: Of these.
    """

    person: str
    answers: int
    compared: int
    overruled: int
    others_compared: int
    others_overruled: int

    @property
    def stands_out(self) -> bool:
        """Whether the person is overruled more often than the others, by Fisher's exact test at 5 %, one-sided."""
        total, overruled = self.compared + self.others_compared, self.overruled + self.others_overruled
        if not (self.overruled and self.others_compared):
            return False
        tail = sum(
            math.comb(overruled, number) * math.comb(total - overruled, self.compared - number)
            for number in range(self.overruled, min(overruled, self.compared) + 1)
        )
        return tail / math.comb(total, self.compared) <= _SIGNIFICANCE

    def to_json(self) -> dict[str, Json]:
        """The counts as JSON."""
        return {**asdict(self), "stands_out": self.stands_out}


def compare_people(items: Iterable[LabelledItem]) -> list[PersonAgreement]:
    """How often each person was overruled, by name."""
    answers, compared, overruled = Counter[str](), Counter[str](), Counter[str]()
    for item in items:
        answers.update(answer.person for answer in item.before_adjudication)
        if len(item.before_adjudication) > 1 and item.truth:
            for answer in item.before_adjudication:
                compared[answer.person] += 1
                overruled[answer.person] += answer.verdict != item.truth
    return [
        PersonAgreement(
            person=person,
            answers=count,
            compared=compared[person],
            overruled=overruled[person],
            others_compared=compared.total() - compared[person],
            others_overruled=overruled.total() - overruled[person],
        )
        for person, count in sorted(answers.items())
    ]


# By dataset and the start of ids what the audit of instructions said of each episode, by its producer.
VERDICTS = "instruction_verdicts"
# Episodes in one of these documents at most, and digits of their ids in its key at most.
_EPISODES_PER_DOCUMENT, _MOST_DIGITS = 4_096, 3


class AuditVerdict(NamedTuple):
    """What the audit of instructions said of an episode before a person ruled on it.

    Attributes:
        verdict: "met", "unmet" where it named the episode, or "unsure".
        rank: Probability of the stated instruction against the best other one, 0 to 1; None where it has no model.
        text_hash: What `hash_text` says of the instruction that was audited.
        judge: Id of the producer, which depends on the version of the audit and the embedding space.
        model: The same for people.
    """

    verdict: str
    rank: float | None
    text_hash: int
    judge: str = ""
    model: str = ""

    def to_json(self) -> dict[str, Json]:
        """What people read of it."""
        return {"verdict": self.verdict, "rank": self.rank, "judge": self.model}


def hash_text(text: str) -> int:
    """A number by which a text is known to be the same."""
    return zlib.crc32(text.encode())


def keep_audit_verdicts(
    stores: Stores, dataset: str, producer: Producer, verdicts: Mapping[str, AuditVerdict]
) -> None:
    """Store what the audit says of episodes; what it said of others of the dataset before stays.

    Of two audits at once, the second waits for the first.

    Args:
        stores: Stores of the workspace.
        dataset: The dataset.
        producer: The version of the audit, with the setting "space".
        verdicts: By id of the episode.

    Raises:
        StoreError: They cannot be stored.
    """
    model = f"instruction audit {producer.version}, {producer.settings['space']}"
    new = {id: item._replace(judge=producer.maker_id, model=model) for id, item in verdicts.items()}
    with stores.write_lock("verdicts of the instruction audit"), stores.annotations.atomic():
        stored = _read_verdict_documents(stores, dataset)
        whole = {id: item for document in stored.values() for id, item in _list_verdicts(document)} | new
        documents = _make_verdict_documents(dataset, whole)
        stores.annotations.drop_documents(VERDICTS, stored.keys() - documents.keys())
        stores.annotations.put_documents(VERDICTS, documents)


def _make_verdict_documents(dataset: str, verdicts: Mapping[str, AuditVerdict]) -> dict[str, Json]:
    """Verdicts in documents by dataset and start of ids; the more there are, the more digits."""
    lengths = range(_MOST_DIGITS)
    digits = next((n for n in lengths if len(verdicts) <= _EPISODES_PER_DOCUMENT * 16**n), _MOST_DIGITS)
    documents: dict[str, Any] = {}
    for id, (verdict, rank, text_hash, judge, name) in verdicts.items():
        document = documents.setdefault(f"{dataset}/{id[:digits]}", {})
        part = document.setdefault(judge, {"model": name, "episodes": {}})
        part["episodes"][id] = [verdict, rank, text_hash]
    return documents


def _read_verdict_documents(stores: Stores, dataset: str) -> dict[str, Json]:
    """The documents with the verdicts on a dataset, by their keys."""
    documents = stores.annotations.find_documents(VERDICTS, f"{dataset}/")
    return {key: document for key, document in documents if key.rpartition("/")[0] == dataset}


def _list_verdicts(document: Json) -> Iterator[tuple[str, AuditVerdict]]:
    for judge, part in cast("Mapping[str, Any]", document).items():
        for id, (verdict, rank, text_hash) in part["episodes"].items():
            yield id, AuditVerdict(verdict, rank, text_hash, judge, part["model"])


def find_audit_verdicts(stores: Stores, datasets: Mapping[str, str]) -> dict[str, AuditVerdict]:
    """What the audit said of some episodes, by their ids; nothing of those whose source says something else by now.

    Args:
        stores: Stores of the workspace.
        datasets: Dataset by id of the episode.
    """
    lengths, verdicts = range(_MOST_DIGITS + 1), dict[str, AuditVerdict]()
    keys = {f"{dataset}/{id[:length]}" for id, dataset in datasets.items() for length in lengths}
    rows = stores.tables.episodes.read_columns(["episode_id", "instruction"], ids_filter(list(datasets)))
    hashes = {row["episode_id"]: hash_text(row["instruction"]) for row in rows.to_pylist()}
    for document in stores.annotations.get_documents(VERDICTS, sorted(keys)):
        stored = _list_verdicts(document)
        verdicts.update((id, item) for id, item in stored if hashes.get(id) == item.text_hash)
    return verdicts


def read_audited_columns(stores: Stores, dataset: str, judge: str, where: str) -> Iterator[pa.Table]:
    """Yield tables with "key" and "verdict": what a producer of audits said of the episodes of a dataset that match.

    Args:
        stores: Stores of the workspace.
        dataset: Its name.
        judge: Id of the producer.
        where: SQL filter over the episode columns.
    """
    import pyarrow as pa

    documents = _read_verdict_documents(stores, dataset).values()
    verdicts = {
        id: item for document in documents for id, item in _list_verdicts(document) if item.judge == judge
    }
    for batch in stores.tables.episodes.scan(["episode_id", "instruction"], where):
        pairs = zip(batch["episode_id"].to_pylist(), batch["instruction"].to_pylist(), strict=True)
        ids = [id for id, text in pairs if id in verdicts and verdicts[id].text_hash == hash_text(text)]
        words = [verdicts[id].verdict for id in ids]
        yield pa.table({"key": pa.array(ids, pa.string()), "verdict": pa.array(words, pa.string())})
