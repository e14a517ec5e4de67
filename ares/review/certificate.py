"""Certifies that accepted captions are true: a cut chosen on one half of people's answers, tested on the other."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from ares.annotation import canonical_json
from ares.console import count_of
from ares.errors import RequestError
from ares.review.answers import ACCEPTABLE
from ares.review.drawing import list_queues
from ares.review.estimates import labels_for_precision
from ares.review.person_labels import MET, LabelledItem, read_labelled_items
from ares.statistics import effective_items, share_lower_bound, share_upper_bound
from ares.store import REVIEWED, batched, ids_filter, in_condition, producer_column

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


# Documents by the key that a set was frozen under ("accepted@000002").
_CERTIFICATES = "certificates"
CONFIDENCE = 0.95
_MOST_CUTS, _LEAST_CORRELATION, _ITEMS_PER_READ = 20, 0.1, 5_000
# Beginnings of the columns that change with what people say.
_CHANGED_BY_ANSWERS = re.compile(
    "grade|acceptable|caption|certified|corrected_instruction|disagreement|failure_|instruction_fits|person_|review"
)
# A rank is 0.5 + margin / 2 where the judge accepts, see `person_labels`.
_ACCEPTED_RANK = 0.5
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedItem:
    """One answer that a certificate rests on.

    Attributes:
        subject_id: Id of the caption.
        episode_id: Its episode.
        answers: Ids of the annotations with the answers.
        judge: Id of the producer of its grade.
        captioner: Id of the producer of the caption.
    """

    subject_id: str
    episode_id: str
    answers: tuple[str, ...]
    judge: str
    captioner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """That at least a share of the accepted captions is true, with 95 % confidence.

    Attributes:
        precision: The share that is certified, 0 to 1.
        cut: Least `grade_margin` of the captions it speaks of, 0 to 1.
        coverage: Share of the answered, accepted captions that reach the cut, 0 to 1.
        labels: Answers of the half that tested it.
        errors: Those among them that call an accepted caption not true.
        bound: Lower bound of the precision by these (Clopper and Pearson, 95 %, one-sided).
        created: ISO 8601 time in UTC.
        items: All answers it rests on, of both halves.
    """

    precision: float
    cut: float
    coverage: float
    labels: int
    errors: int
    bound: float
    created: str
    items: tuple[CertifiedItem, ...]

    @property
    def judges(self) -> tuple[str, ...]:
        """Ids of the producers of the grades."""
        return tuple(sorted({item.judge for item in self.items}))

    @property
    def captioners(self) -> tuple[str, ...]:
        """Ids of the producers of the captions."""
        return tuple(sorted({item.captioner for item in self.items}))

    @property
    def basis_hash(self) -> str:
        """16 hex digits over everything that it rests on."""
        rows = sorted((item.subject_id, item.answers, item.judge, item.captioner) for item in self.items)
        return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]

    @property
    def where(self) -> str:
        """The filter of the episodes that it speaks of; see also `find_changed_members`."""
        judges = in_condition(producer_column("grade"), self.judges)
        return f"grade = 'acceptable' AND grade_margin >= {self.cut!r} AND {judges}"

    def describe(self) -> str:
        """One sentence for people."""
        return (
            f"precision of acceptable at least {self.precision:g} with {CONFIDENCE:.0%} confidence at coverage "
            f"{self.coverage:.2f} ({count_of(self.labels, 'answer')} tested it, {self.errors} of them errors; "
            f"grade_margin >= {self.cut:g})"
        )

    def to_json(self) -> dict[str, Json]:
        """The stored document."""
        items = [cast("Json", asdict(item)) for item in self.items]
        return {**self.summary(), "items": items}

    def summary(self) -> dict[str, Json]:
        """What a manifest and a card say of it."""
        return {
            "precision": self.precision,
            "confidence": CONFIDENCE,
            "cut": self.cut,
            "coverage": self.coverage,
            "labels": self.labels,
            "errors": self.errors,
            "bound": self.bound,
            "created": self.created,
            "judges": list(self.judges),
            "captioners": list(self.captioners),
            "basis_hash": self.basis_hash,
        }


def certificate_from_json(document: Mapping[str, Json]) -> Certificate:
    """The certificate that `to_json` wrote."""
    rows = cast("Sequence[Mapping[str, Json]]", document["items"])
    names = ("precision", "cut", "coverage", "labels", "errors", "bound", "created")
    items = [{**row, "answers": tuple(cast("Sequence[str]", row["answers"]))} for row in rows]
    return Certificate(
        **{name: document[name] for name in names},  # type: ignore[arg-type]  # `to_json` wrote it
        items=tuple(CertifiedItem(**item) for item in items),  # type: ignore[arg-type]
    )


def check_certificate(document: object) -> Certificate:
    """The certificate of a file that anybody may have written.

    Raises:
        ValueError: It has another form, rests on no answers, or they do not show what it says.
    """
    from pydantic import TypeAdapter

    certificate = TypeAdapter(Certificate).validate_python(document)
    right = certificate.labels - certificate.errors
    if not (certificate.items and all(item.answers for item in certificate.items)):
        raise ValueError("a certificate rests on no answers")
    if not 0 <= right <= certificate.labels <= len(certificate.items):
        raise ValueError("a certificate counts other answers than it has")
    bound = share_lower_bound(right, certificate.labels, CONFIDENCE) if certificate.labels else 0.0
    if not 0 < certificate.precision <= certificate.bound <= bound + _ROUNDING:
        raise ValueError("the answers of a certificate do not show its precision")
    if not (0 <= certificate.cut <= 1 and 0 <= certificate.coverage <= 1):
        raise ValueError("cut and coverage of a certificate are shares")
    return certificate


def certify(stores: Stores, precision: float, *, where: str = "") -> Certificate:
    """Certify a precision of the accepted captions of some episodes, from what people said of captions drawn at random.

    Args:
        stores: Stores of the workspace.
        precision: The share of true ones to be certified, above 0 and below 1.
        where: SQL filter over the episode columns.

    Raises:
        RequestError: The filter or the precision is wrong, or the answers were drawn from other episodes or do not
            show it: then it says how many are missing.
        StoreError: The log cannot be read.
    """
    if not 0 < precision < 1:
        raise RequestError(
            f"a precision of {precision:g} cannot be certified", "give one above 0 and below 1"
        )
    refuse_answer_columns(where, "certifies")
    items = [
        item
        for item in read_labelled_items(stores, question=ACCEPTABLE, where=where)
        if item.is_random and item.judged == MET and not item.is_segment
    ]
    _refuse_other_draws(stores, items, where)
    return certify_items(items, precision)


def _refuse_other_draws(stores: Stores, items: Iterable[LabelledItem], where: str) -> None:
    """Raise RequestError where answers were drawn from other episodes than are to be certified: they speak of those."""
    recipes = {queue.name: queue.recipe for queue in list_queues(stores)}
    names = {answer.queue for item in items for answer in item.answers if answer.queue in recipes}
    for name in sorted(names):
        if dict(recipes[name]) not in ({}, {"where": where}):
            drawn = canonical_json(dict(recipes[name]))
            raise RequestError(
                f"queue {name!r} was drawn from other episodes",
                f"{drawn}; certify the same --where, or ask a queue of all episodes",
            )


def refuse_answer_columns(where: str, does: str) -> None:
    """Raise RequestError for a filter by what answers change: captions that people refused would be left out of it.

    Args:
        where: SQL filter over the episode columns.
        does: What it would be used for: "certifies" or "measures".
    """
    words = set(re.findall(r"[a-z_][a-z0-9_]*", re.sub(r"'(?:[^']|'')*'", "''", where.lower())))
    changed = sorted(word for word in words if _CHANGED_BY_ANSWERS.match(word))
    if changed:
        raise RequestError(
            f"a filter by {', '.join(changed)} {does} nothing",
            "answers change it, so that it leaves out what people refused; what a judge accepted is counted by itself "
            "in any case: filter by columns of the source",
        )


def certify_items(items: Sequence[LabelledItem], precision: float) -> Certificate:
    """As `certify`, from accepted captions with their answers; one on which people differ counts as an error."""
    first, second = _split_by_episode(items)
    cuts = _ordered_cuts(first)
    passed: tuple[float, int, int, float] | None = None
    for cut in cuts:
        labels, errors, bound = _test_cut(second, cut)
        if bound < precision:
            break
        passed = cut, labels, errors, bound
    if passed is None:
        raise _make_refusal(items, second, cuts[0] if cuts else _ACCEPTED_RANK, precision)
    cut, labels, errors, bound = passed
    return Certificate(
        precision=precision,
        cut=round(2 * (cut - _ACCEPTED_RANK), 6),
        coverage=round(sum(_rank_of_item(item) >= cut for item in items) / len(items), 6),
        labels=labels,
        errors=errors,
        bound=round(bound, 6),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        items=tuple(
            CertifiedItem(
                subject_id=item.subject_id,
                episode_id=item.episode_id,
                answers=tuple(answer.annotation_id for answer in item.answers),
                judge=item.judge,
                captioner=item.captioner,
            )
            for item in items
        ),
    )


def certified_members(stores: Stores, certificate: Certificate, where: str = "") -> Iterator[str]:
    """Yield the episodes that a certificate speaks of, and those whose captions people accepted.

    Args:
        stores: Stores of the workspace.
        certificate: The certificate.
        where: The filter that it was made with.
    """
    # No judge's margin stands for what people decided.
    by_people = f"acceptable AND {REVIEWED} AND grade_margin IS NULL"
    condition = f"(({certificate.where}) OR ({by_people})){f' AND ({where})' if where else ''}"
    for ids in stores.tables.episodes.id_batches(condition):
        changed = set(find_changed_members(stores, certificate, ids))
        yield from (episode_id for episode_id in ids if episode_id not in changed)


def keep_certificate(stores: Stores, key: str, certificate: Certificate) -> None:
    """Store the certificate of a set under its `CurationSet.frozen_key`. Raises StoreError."""
    stores.annotations.put_documents(_CERTIFICATES, {key: certificate.to_json()})


def rests_on(stores: Stores, subject_id: str) -> bool:
    """Whether the certificate of any set rests on what people say of a text. Raises StoreError."""
    return any(
        item.subject_id == subject_id
        for _, document in stores.annotations.find_documents(_CERTIFICATES)
        for item in certificate_from_json(cast("Mapping[str, Json]", document)).items
    )


def describe_certificate(stores: Stores, key: str, members: Iterable[str]) -> dict[str, Json]:
    """What is to be said of the certificate of a set: its numbers, "says", and "void", the reasons; {} without one.

    Args:
        stores: Stores of the workspace.
        key: `CurationSet.frozen_key` of the set.
        members: Ids of its episodes.

    Raises:
        StoreError: The log or a table cannot be read.
    """
    document = stores.annotations.get_document(_CERTIFICATES, key)
    if not isinstance(document, Mapping):
        return {}
    certificate = certificate_from_json(document)
    reasons = find_reasons_void(stores, certificate, members)
    return {**certificate.summary(), "says": certificate.describe(), "void": list(reasons)}


def find_reasons_void(
    stores: Stores, certificate: Certificate, members: Iterable[str] = ()
) -> tuple[str, ...]:
    """Why a certificate does not hold any more; () where it does.

    Args:
        stores: Stores of the workspace.
        certificate: The certificate.
        members: Ids of the episodes of the set that has it.
    """
    reasons: list[str] = []
    for part in batched(certificate.items, _ITEMS_PER_READ):
        where = ids_filter({item.episode_id for item in part})
        labelled = read_labelled_items(stores, question=ACCEPTABLE, where=where)
        now = {item.subject_id: item for item in labelled}
        reasons.extend(reason for item in part if (reason := _find_change(item, now.get(item.subject_id))))
    changed = sum(1 for _ in find_changed_members(stores, certificate, members))
    if changed:
        reasons.append(f"of {count_of(changed, 'member')} another caption or grade is shown now")
    return tuple(reasons)


def _find_change(item: CertifiedItem, now: LabelledItem | None) -> str:
    current = {answer.annotation_id for answer in now.answers} if now else set()
    if now is None or not set(item.answers) <= current:
        return f"an answer on episode {item.episode_id} was changed or taken back"
    if current - set(item.answers):
        return f"somebody else answered on episode {item.episode_id}"
    return "" if now.judge == item.judge else f"episode {item.episode_id} was graded again by {now.judge}"


def find_changed_members(stores: Stores, certificate: Certificate, members: Iterable[str]) -> Iterator[str]:
    """Yield the members whose caption or grade is by neither a person nor a producer of the certificate."""
    producers = stores.annotations.producers()
    people = [maker_id for maker_id, producer in producers.items() if producer.kind == "person"]
    is_graded = in_condition(producer_column("grade"), [*certificate.judges, *people])
    is_captioned = in_condition("maker_id", [*certificate.captioners, *people])
    tables = stores.tables
    for ids in batched(members, _ITEMS_PER_READ):
        graded = tables.episodes.ids(f"{ids_filter(ids)} AND {is_graded}")
        is_other = f"{ids_filter(ids)} AND annotator = 'caption' AND NOT ({is_captioned})"
        others = tables.segments.scan(["episode_id"], is_other)["episode_id"].to_pylist()
        yield from sorted(set(ids) - graded | set(others))


def _rank_of_item(item: LabelledItem) -> float:
    return _ACCEPTED_RANK if item.rank is None else item.rank


def _split_by_episode(
    items: Iterable[LabelledItem],
) -> tuple[list[LabelledItem], list[LabelledItem]]:
    """Two halves; all captions of an episode are in one of them, the same on every machine."""
    halves: tuple[list[LabelledItem], list[LabelledItem]] = [], []
    ranked = sorted(items, key=lambda item: hashlib.sha256(item.episode_id.encode()).hexdigest())
    numbers = {episode: number for number, episode in enumerate(dict.fromkeys(i.episode_id for i in ranked))}
    for item in ranked:
        halves[numbers[item.episode_id] % 2].append(item)
    return halves


def _ordered_cuts(items: Sequence[LabelledItem]) -> list[float]:
    """Cuts in the order in which they are tested: the one that these items speak for most, then looser ones."""
    ranks = sorted({_rank_of_item(item) for item in items})
    step = max(1, len(ranks) // _MOST_CUTS)
    cuts = sorted({_ACCEPTED_RANK, *ranks[::step]})
    best = max(cuts, key=lambda cut: (_test_cut(items, cut)[2], -cut), default=_ACCEPTED_RANK)
    return [cut for cut in reversed(cuts) if cut <= best]


def _test_cut(items: Collection[LabelledItem], cut: float) -> tuple[int, int, float]:
    """Answers above a cut, errors among them, and the lower bound of the precision; by episode where it has several."""
    hits: dict[str, list[bool]] = {}
    for item in items:
        if _rank_of_item(item) >= cut:
            hits.setdefault(item.episode_id, []).append(item.truth == MET)
    labels, right = sum(map(len, hits.values())), sum(map(sum, hits.values()))
    effective = float(labels)
    if len(hits) < labels:
        totals = [len(answers) for answers in hits.values()]
        effective = effective_items([sum(answers) for answers in hits.values()], totals, _LEAST_CORRELATION)
    bound = share_lower_bound(right * effective / labels, effective, CONFIDENCE) if labels else 0.0
    return labels, labels - right, bound


def _make_refusal(
    items: Sequence[LabelledItem], tested: Sequence[LabelledItem], cut: float, precision: float
) -> RequestError:
    """The error that says how many answers are missing, or that no number of them will do."""
    labels, errors, _ = _test_cut(tested, cut)
    above, wrong, _ = _test_cut(items, cut)
    if above and share_upper_bound(above - wrong, above, CONFIDENCE) < precision:
        share = (above - wrong) / above
        return RequestError(
            f"precision {precision:g} cannot be certified",
            f"{above - wrong} of {above} accepted captions are true ({share:.2f}): certify less, or mend the judge",
        )
    missing = max(1, labels_for_precision(precision, errors, CONFIDENCE) - labels)
    return RequestError(
        f"precision {precision:g} is not shown yet",
        f"{count_of(labels, 'answer')} tested it, {errors} of them errors; about {2 * missing} more random answers on "
        "accepted captions are missing: half of them choose the cut",
    )
