"""What a measurement asks about: all that one maker says in a dataset, drawn in an order that later drawings keep."""

from __future__ import annotations

import hashlib
import random
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ares.errors import RequestError
from ares.review.answers import ACCEPTABLE, INSTRUCTION, SUCCESS
from ares.review.drawing import (
    ITEMS,
    RANDOM,
    Queue,
    QueueRequest,
    check_criterion,
    list_queues,
    write_queue,
)
from ares.store import conjunction, in_condition, producer_column, quote_literal

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.episode import Json
    from ares.store import Stores


CAPTION = "caption"
# When a grade was made, and whether its judge was refuted for it; tables of earlier versions have neither.
_GRADE_TIME, _REFUTED = "grade_time", "grade_refuted"
# More items than answers that enter: some are answered "cannot tell".
_MOST_ACCEPTED, _MOST_REFUSED = 600, 200
# Every fourth question is about a refused one, and a tenth of all is asked of a second person.
_BLOCK, _REPEAT = 4, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredQuestion:
    """A question of a measurement, and the columns with what is measured.

    Attributes:
        name: "caption", "segment", "success", "instruction", or a criterion such as "VERB".
        asked: The question that people answer, see `Answer`.
        what: What is measured, in words, and what it is where people agree.
        words: What people say where they agree, by the word of the maker.
        verdict: Column with the word of the maker; "" where the source is the maker.
        maker: Column with the id of the maker, or "".
        refused: The word by which a judge refuses, whose subjects are no part of the population; or "".
        annotator: Annotator of the texts that are asked about; "" for a question about episodes.
    """

    name: str
    asked: str
    what: tuple[str, str]
    words: Mapping[str, str] = field(default_factory=dict)
    verdict: str = ""
    maker: str = ""
    refused: str = ""
    annotator: str = ""


def _text_question(name: str, what: str, annotator: str, judge: str) -> MeasuredQuestion:
    return MeasuredQuestion(
        name=name,
        asked=ACCEPTABLE,
        what=(what, "true"),
        words={"acceptable": "met"},
        verdict="grade",
        maker=producer_column(judge),
        refused="not_acceptable",
        annotator=annotator,
    )


_QUESTIONS = (
    _text_question(CAPTION, "accepted captions", "caption", "grade"),
    _text_question("segment", "accepted texts of segments", "segment_caption", "segment_grade"),
    MeasuredQuestion(
        name=SUCCESS,
        asked=SUCCESS,
        what=("outcomes", "right"),
        words={"success": "success", "failure": "failure"},
        verdict="success_verdict",
        maker=producer_column(SUCCESS),
    ),
    MeasuredQuestion(name=INSTRUCTION, asked=INSTRUCTION, what=("instructions", "right")),
)
MEASURED_QUESTIONS = tuple(question.name for question in _QUESTIONS)


def find_measured_question(stores: Stores, name: str) -> MeasuredQuestion:
    """The question of a name. Raises RequestError where there is none."""
    known = next((question for question in _QUESTIONS if question.name == name), None)
    if known is not None:
        return known
    if not name.isupper():
        names = ", ".join(MEASURED_QUESTIONS)
        raise RequestError(f"no question {name!r}", f"there are: {names}, and criteria such as VERB")
    check_criterion(stores, name)
    return MeasuredQuestion(
        name=name,
        asked=name,
        what=(f"verdicts on {name}", "right"),
        words={"MET": "met", "UNMET": "unmet"},
        verdict=f"grade_{name.lower()}",
        maker=producer_column("grade"),
        annotator="caption",
    )


class Makers(NamedTuple):
    """Who made what is measured: the id of the maker of the text, and that of its judge; "" where there is none."""

    text: str
    judge: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """What one maker says in a dataset now, counted.

    Attributes:
        question: The question.
        dataset: The dataset.
        makers: Those of whom most is shown.
        accepted: What they say that is measured.
        by_anybody: The same of all makers and people.
        total: All that could be accepted, refused or undecided.
    """

    question: MeasuredQuestion
    dataset: str
    makers: Makers
    accepted: int
    by_anybody: int
    total: int


def count_populations(
    stores: Stores, question: MeasuredQuestion, drawings: Iterable[Drawing]
) -> dict[str, Population]:
    """The populations of a question by dataset; none where nothing is accepted by a maker that is no person.

    Args:
        stores: Stores of the workspace.
        question: The question.
        drawings: All drawings: what people have answered of them counts as its makers' still.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, people = _read_rows(stores, question), list_people(stores)
    is_by_people = pc.is_in(rows["judge"], value_set=pa.array(sorted(people), pa.string()))
    groups = rows.group_by(["dataset", "text_maker", "judge", "word"]).aggregate([([], "count_all")])
    made, accepted, total = dict[str, Counter[Makers]](), Counter[str](), Counter[str]()
    for row in groups.to_pylist():
        dataset, count = str(row["dataset"]), int(row["count_all"])
        total[dataset] += count
        if _is_measured(question, row["word"]):
            accepted[dataset] += count
            if not {row["judge"], row["text_maker"]} & people:
                makers = Makers(row["text_maker"] or "", row["judge"] or "")
                made.setdefault(dataset, Counter())[makers] += count
    answered, subjects = set(rows["subject"].filter(is_by_people).to_pylist()), set[str]()
    for drawing in drawings if answered else ():
        if drawing.question == question.name:
            drawn = {row["subject"] for row in read_drawn_items(stores, drawing)} & answered - subjects
            subjects |= drawn
            if drawn:
                made.setdefault(drawing.dataset, Counter())[drawing.makers] += len(drawn)
    return {
        dataset: Population(
            question=question,
            dataset=dataset,
            makers=max(counts, key=lambda makers: (counts[makers], makers)),
            accepted=max(counts.values()),
            by_anybody=accepted[dataset],
            total=total[dataset],
        )
        for dataset, counts in sorted(made.items())
    }


def list_people(stores: Stores) -> set[str]:
    """Ids of the producers that are people."""
    producers = stores.annotations.producers()
    return {maker_id for maker_id, producer in producers.items() if producer.kind == "person"}


def _is_measured(question: MeasuredQuestion, word: object) -> bool:
    return not question.verdict or word in question.words


# What is read of everything that could be asked about.
_ROWS = ("subject", "episode_id", "dataset", "text_maker", "judge", "word")


def _read_rows(stores: Stores, question: MeasuredQuestion, where: str = "") -> pa.Table:
    """What could be asked about, with the columns `_ROWS`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not question.annotator:
        return _read_episode_rows(stores, question, where)
    existing = stores.tables.segments.columns()
    names = {"subject": "annotation_id", "episode_id": "episode_id", "text_maker": "maker_id"}
    late = {"judge": question.maker, "word": question.verdict}
    if not {*late.values(), "text"} <= existing.keys():
        return pa.table({name: pa.array([], pa.string()) for name in _ROWS})
    episodes = stores.tables.episodes.read_columns(["episode_id", "dataset"])
    condition = conjunction([f"annotator = {quote_literal(question.annotator)} AND text <> ''", where])
    rows = stores.tables.segments.scan([*names.values(), *late.values()], condition)
    rows = rows.rename_columns([*names, *late])
    places = pc.index_in(rows["episode_id"], episodes["episode_id"].combine_chunks())
    rows = rows.append_column("dataset", episodes["dataset"].take(places))
    # Segments of removed episodes may follow later.
    return rows.filter(pc.is_valid(rows["dataset"]))


def _read_episode_rows(stores: Stores, question: MeasuredQuestion, where: str) -> pa.Table:
    import pyarrow as pa

    episodes, late = stores.tables.episodes, {"judge": question.maker, "word": question.verdict}
    late = {name: column for name, column in late.items() if column in episodes.columns()}
    if question.verdict and len(late) < 2:
        return pa.table({name: pa.array([], pa.string()) for name in _ROWS})
    stated = "instruction <> ''" if not question.verdict else ""
    columns = ["episode_id", "dataset", *late.values()]
    rows = episodes.read_columns(columns, conjunction([stated, where]))
    rows = rows.rename_columns(["episode_id", "dataset", *late])
    for name in _ROWS:
        if name not in rows.column_names:
            column = rows["episode_id"] if name == "subject" else pa.nulls(len(rows), pa.string())
            rows = rows.append_column(name, column)
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A queue that was drawn for a measurement.

    Attributes:
        queue: The queue.
        question: Name of the question.
        dataset: The dataset.
        makers: Who made what was drawn from.
        time: When it was drawn, in seconds since 1970.
        accepted: How many it was drawn from.
    """

    queue: Queue
    question: str
    dataset: str
    makers: Makers
    time: float
    accepted: int


def list_drawings(stores: Stores) -> list[Drawing]:
    """All drawings, the oldest first. Raises StoreError."""
    drawings = [drawing for queue in list_queues(stores) if (drawing := find_drawing(queue))]
    return sorted(drawings, key=lambda drawing: drawing.time)


def find_drawing(queue: Queue) -> Drawing | None:
    """The drawing that a queue is; None for another queue."""
    recipe = cast("Mapping[str, Any]", queue.recipe)
    if "measure" not in recipe:
        return None
    return Drawing(
        queue=queue,
        question=str(recipe["measure"]),
        dataset=str(recipe["dataset"]),
        makers=Makers(*recipe["makers"]),
        time=float(recipe["time"]),
        accepted=int(recipe["accepted"]),
    )


def read_drawn_items(stores: Stores, drawing: Drawing) -> list[Mapping[str, Any]]:
    """The items of a drawing in their order: "subject", "episode_id", "people", and "word", that of the maker."""
    documents = stores.annotations.find_documents(ITEMS, f"{drawing.queue.name}/")
    return [row for _, block in documents for row in cast("list[Mapping[str, Any]]", block)]


def _measured_condition(stores: Stores, drawing: Drawing, accepts_refuted: bool = False) -> str:
    """The filter of what a drawing was made from and is still as it was, and of what people accept.

    Args:
        stores: Stores of the workspace.
        drawing: The drawing.
        accepts_refuted: Whether captions count whose judge was refuted since.
    """
    question = find_measured_question(stores, drawing.question)
    columns = _columns_of(stores, question)
    parts = _maker_conditions(question, drawing.makers)
    if _GRADE_TIME in columns and question.refused:
        parts.append(f"({_GRADE_TIME} IS NULL OR {_GRADE_TIME} <= {drawing.time!r})")
    parts.append(_refuted_condition(columns, accepts_refuted))
    if not question.maker:
        return ""
    by_people = in_condition(question.maker, sorted(list_people(stores)))
    return conjunction([_accepted_condition(question), f"({conjunction(parts)}) OR {by_people}"])


def has_grown(stores: Stores, drawing: Drawing) -> bool:
    """Whether something was accepted by the same makers after a drawing."""
    question = find_measured_question(stores, drawing.question)
    if _GRADE_TIME not in _columns_of(stores, question) or not question.refused:
        return False
    later = f"{_GRADE_TIME} > {drawing.time!r}"
    parts = [_accepted_condition(question), *_maker_conditions(question, drawing.makers), later]
    rows = _read_rows(stores, question, conjunction(parts))
    return drawing.dataset in rows["dataset"].to_pylist()


def find_accepted_episodes(stores: Stores, accepts_refuted: bool) -> set[str]:
    """The episodes with an accepted caption, whoever made it and accepted it; those of a refuted judge if asked for."""
    question = find_measured_question(stores, CAPTION)
    refuted = _refuted_condition(_columns_of(stores, question), accepts_refuted)
    rows = _read_rows(stores, question, conjunction([_accepted_condition(question), refuted]))
    return set(rows["episode_id"].to_pylist())


def _refuted_condition(columns: Collection[str], accepts_refuted: bool) -> str:
    return "" if accepts_refuted or _REFUTED not in columns else f"{_REFUTED} IS NULL OR NOT {_REFUTED}"


def _columns_of(stores: Stores, question: MeasuredQuestion) -> Collection[str]:
    return (stores.tables.segments if question.annotator else stores.tables.episodes).columns()


def _accepted_condition(question: MeasuredQuestion) -> str:
    return in_condition(question.verdict, sorted(question.words)) if question.verdict else ""


def _maker_conditions(question: MeasuredQuestion, makers: Makers) -> list[str]:
    return [
        f"{column} = {quote_literal(maker)}"
        for column, maker in ((question.maker, makers.judge), ("maker_id", makers.text))
        if column and maker
    ]


def find_measured_subjects(
    stores: Stores, drawing: Drawing, accepts_refuted: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield subject and episode of what a drawing was made from and is still as it was, see `_measured_condition`."""
    question = find_measured_question(stores, drawing.question)
    rows = _read_rows(stores, question, _measured_condition(stores, drawing, accepts_refuted))
    columns = [rows[name].to_pylist() for name in ("subject", "episode_id", "dataset")]
    for subject, episode_id, dataset in zip(*columns, strict=True):
        if dataset == drawing.dataset:
            yield subject, episode_id


def draw_measurement(
    stores: Stores,
    population: Population,
    person: str,
    known: Collection[str] = (),
    before: Drawing | None = None,
) -> Drawing:
    """Draw what is asked, and in which order.

    Each subject has a random number, the same in every later drawing: the first ones are a random sample of whatever
    is there. So what was answered before counts again, and only what is new among the first ones is asked.

    Args:
        stores: Stores of the workspace.
        population: What is measured.
        person: Who draws.
        known: Subjects that people have answered: they are not asked again.
        before: The drawing before of the same makers, if there is one.

    Raises:
        StoreError: It cannot be written.
    """
    question, makers, now = population.question, population.makers, time.time()
    seed = before.queue.seed if before else secrets.randbits(48)
    rows = _read_rows(stores, question, conjunction(_maker_conditions(question, makers))).to_pylist()
    # In the tables an answered text is by the person who answered, and no more by the judge.
    answered = [row for row in read_drawn_items(stores, before) if row["subject"] in known] if before else []
    by_subject = {row["subject"]: row for row in rows if row["dataset"] == population.dataset}
    by_subject |= {row["subject"]: row for row in answered}
    candidates = sorted(by_subject.values(), key=lambda row: _random_number(seed, row["subject"]))
    accepted = [row for row in candidates if _is_measured(question, row["word"])]
    refused = [row for row in candidates if question.refused and row["word"] == question.refused]
    generator = random.Random(f"{seed}/{now!r}")
    items: list[Json] = [
        {
            "subject": row["subject"],
            "episode_id": row["episode_id"],
            "drawn": RANDOM,
            "people": 0 if row["subject"] in known else 2 if generator.random() < _REPEAT else 1,
            "word": row["word"] or "",
        }
        for row in _mix_refused(accepted[:_MOST_ACCEPTED], refused[:_MOST_REFUSED], generator)
    ]
    recipe: dict[str, Json] = {
        "measure": question.name,
        "dataset": population.dataset,
        "makers": list(makers),
        "time": now,
        "accepted": len(accepted),
    }
    name = f"measure-{hashlib.blake2b(repr(recipe).encode(), digest_size=4).hexdigest()}"
    request = QueueRequest(name=name, question=question.asked, person=person, seed=seed, recipe=recipe)
    drawing = find_drawing(write_queue(stores, request, items))
    assert drawing is not None
    return drawing


def _random_number(seed: int, subject: str) -> bytes:
    return hashlib.blake2b(f"{seed}/{subject}".encode(), digest_size=16).digest()


def _mix_refused(
    accepted: Sequence[Mapping[str, Any]], refused: Sequence[Mapping[str, Any]], generator: random.Random
) -> Iterator[Mapping[str, Any]]:
    """Both in their order; each block of four has a refused one, at a place that nobody can tell."""
    rest = iter(refused)
    for start in range(0, len(accepted), _BLOCK - 1):
        block = list(accepted[start : start + _BLOCK - 1])
        if (row := next(rest, None)) is not None:
            block.insert(generator.randrange(len(block) + 1), row)
        yield from block
