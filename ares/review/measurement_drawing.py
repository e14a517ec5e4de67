"""What a measurement asks about: all that one maker says in a dataset, drawn in an order that later drawings keep."""

from __future__ import annotations

import hashlib
import random
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ares.annotation import ATTRIBUTE_PREFIX
from ares.errors import RequestError
from ares.review.answers import ACCEPTABLE, INSTRUCTION, SUCCESS, is_about_attribute
from ares.review.drawing import (
    ITEMS,
    Queue,
    QueueRequest,
    draw_rows,
    list_queues,
    write_queue,
)
from ares.store import quote_literal

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.episode import Json
    from ares.store import Stores


CAPTION = "caption"
_SAME_WORDS = {"success": "success", "failure": "failure"}
# More items than answers that enter: some are answered "cannot tell".
_MOST_ACCEPTED, _MOST_REFUSED = 600, 200
# Every fourth question is about a refused one, and a tenth of all is asked of a second person.
_BLOCK, _REPEAT = 4, 0.1
_ROWS_AT_ONCE = 10_000
# Judge of a grade that names none: where no model has graded, the tables do not say which person did.
_PERSON = "person"


@dataclass(frozen=True, slots=True)
class MeasuredQuestion:
    """A question of a measurement, and the columns with what is measured.

    Attributes:
        name: "caption", "segment", "success", "instruction", or the column of an attribute.
        what: What is measured, in words, and what it is where people agree.
        maker: Column with the id of the maker; "" where the source is the maker.
        answered: The question that people answer, see `Answer`.
        words: What people say where they agree, by the word of the maker.
        verdict: Column with the word of the maker, or "".
        refused: The word by which a judge refuses, whose subjects are no part of the population; or "".
        annotator: Annotator of the texts that are asked about; "" for a question about episodes.
        value: Column with the value that people say is true or not, or "".
    """

    name: str
    what: tuple[str, str]
    maker: str
    answered: str = ACCEPTABLE
    words: Mapping[str, str] = field(default_factory=lambda: {"acceptable": "met"})
    verdict: str = "grade"
    refused: str = "not_acceptable"
    annotator: str = ""
    value: str = ""

    def describe(self, makers: Makers, number: int) -> tuple[str, str]:
        """`what` of so many of some makers: without a judge all are measured, and none is accepted."""
        if makers.judge or not self.refused:
            return self.what
        return f"all {number:,} {self.what[0].removeprefix('accepted ')}, none graded", self.what[1]


_QUESTIONS = (
    MeasuredQuestion(CAPTION, ("accepted captions", "true"), "grade_maker", annotator="caption"),
    MeasuredQuestion(
        "segment", ("accepted texts of segments", "true"), "segment_grade_maker", annotator="segment_caption"
    ),
    MeasuredQuestion(
        SUCCESS, ("outcomes", "right"), "success_maker", SUCCESS, _SAME_WORDS, "success_verdict", refused=""
    ),
    MeasuredQuestion(INSTRUCTION, ("instructions", "right"), "", INSTRUCTION, {}, verdict="", refused=""),
)
MEASURED_QUESTIONS = tuple(question.name for question in _QUESTIONS)


def find_measured_question(name: str) -> MeasuredQuestion:
    """The question of a name. Raises RequestError where there is none."""
    for question in _QUESTIONS:
        if question.name == name:
            return question
    if is_about_attribute(name):
        what = f"answers to {name.removeprefix(ATTRIBUTE_PREFIX)}", "right"
        return MeasuredQuestion(name, what, "attributes_maker", name, {}, verdict="", refused="", value=name)
    known = f"{', '.join(MEASURED_QUESTIONS)}, and {ATTRIBUTE_PREFIX}NAME of each attribute"
    raise RequestError(f"no question {name!r}", f"there are: {known}")


class Makers(NamedTuple):
    """Who made what is measured: the id of the maker of the text, and that of its judge; "" where there is none."""

    text: str
    judge: str


class Population(NamedTuple):
    """What one maker says in a dataset, counted.

    Attributes:
        makers: Those of whom most is shown.
        accepted: What they say that is measured.
        by_anybody: The same of all makers and people.
        total: All that could be accepted, refused or undecided.
        newest: When the last of theirs was accepted, in seconds since 1970; 0 where nothing says so.
    """

    makers: Makers
    accepted: int
    by_anybody: int
    total: int
    newest: float


# What is read of everything that could be asked about; of grades also when they were made, and whether the judge was
# refuted for them, where the table says so.
_TEXTS = ("subject", "episode_id", "dataset", "text_maker", "judge", "word")


class Subjects:
    """Everything that could be asked about for a question, in all datasets, and who made it.

    Where no judge has graded anything of a dataset, all of it counts as accepted.

    Args:
        stores: Stores of the workspace.
        question: The question.
        drawings: All drawings: a judge of one of them has graded, also where people have answered since.

    Attributes:
        question: The question.
        rows: A row for each, with the columns `_TEXTS`, "time" and "is_refuted".
    """

    def __init__(self, stores: Stores, question: MeasuredQuestion, drawings: Iterable[Drawing]) -> None:
        import pyarrow as pa

        producers = stores.annotations.producers()
        people = [maker_id for maker_id, producer in producers.items() if producer.kind == "person"]
        self.question, self._people = question, pa.array([*people, _PERSON], pa.string())
        self.rows = _read_rows(stores, question)
        # Datasets that a judge has graded.
        self._judged = {
            item.dataset for item in drawings if item.question == question.name and item.makers.judge
        }
        if question.refused:
            self._accept_ungraded()

    def _accept_ungraded(self) -> None:
        """Accept what has no grade in datasets without a judge."""
        import pyarrow as pa
        import pyarrow.compute as pc

        has_word, dataset = pc.not_equal(self.rows["word"], ""), self.rows["dataset"]
        is_unnamed = pc.and_(has_word, pc.equal(self.rows["judge"], ""))
        judge = pc.if_else(is_unnamed, _PERSON, self.rows["judge"])
        is_by_judge = pc.and_not(has_word, pc.is_in(judge, value_set=self._people))
        self._judged |= set(dataset.filter(is_by_judge).unique().to_pylist())
        is_judged = pc.is_in(dataset, value_set=pa.array(sorted(self._judged), pa.string()))
        (accepted,) = self.question.words
        word = pc.if_else(pc.or_(has_word, is_judged), self.rows["word"], accepted)
        rest = self.rows.drop_columns(["judge", "word"])
        self.rows = rest.append_column("judge", judge).append_column("word", word)

    def accepted(self, accepts_refuted: bool = True) -> pa.Table:
        """The rows that are measured, or accepted, whoever says so; with those of refuted judges or without."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self.rows if accepts_refuted else self.rows.filter(pc.invert(self.rows["is_refuted"]))
        words = pa.array(list(self.question.words), pa.string())
        return rows.filter(pc.is_in(rows["word"], value_set=words)) if self.question.verdict else rows

    def measured(self, drawing: Drawing, accepts_refuted: bool = True) -> pa.Table:
        """The rows that a drawing was made from and that are still as they were, and those that people accept."""
        import pyarrow.compute as pc

        rows = self.accepted(accepts_refuted)
        rows = rows.filter(pc.equal(rows["dataset"], drawing.dataset))
        is_early = pc.less_equal(rows["time"], drawing.time)
        is_original = pc.and_(self._is_of_makers(rows, drawing.makers), is_early)
        return rows.filter(pc.or_(is_original, pc.is_in(rows["judge"], value_set=self._people)))

    def of_makers(
        self, makers: Makers, dataset: str, words: Collection[str], without: Collection[str]
    ) -> pa.Table:
        """The rows of some makers in a dataset for which they have one of some words, without some subjects."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self.rows.filter(pc.equal(self.rows["dataset"], dataset))
        rows = rows.filter(self._is_of_makers(rows, makers))
        rows = rows.filter(pc.invert(pc.is_in(rows["subject"], value_set=pa.array(without, pa.string()))))
        has_word = pc.is_in(rows["word"], value_set=pa.array(words, pa.string()))
        return rows.filter(has_word) if self.question.verdict else rows

    def _is_of_makers(self, rows: pa.Table, makers: Makers) -> pa.ChunkedArray:
        import pyarrow.compute as pc

        return pc.and_(pc.equal(rows["text_maker"], makers.text), pc.equal(rows["judge"], makers.judge))

    def count_populations(self, stores: Stores, drawings: Iterable[Drawing]) -> dict[str, Population]:
        """The populations by dataset; none where nothing is accepted by a maker that is no person.

        Args:
            stores: Stores of the workspace.
            drawings: All drawings: what people have answered of them counts as its makers' still.
        """
        import pyarrow.compute as pc

        accepted, people = self.accepted(), set(self._people.to_pylist())
        total, by_anybody = (_count_values(table["dataset"]) for table in (self.rows, accepted))
        groups = accepted.group_by(["dataset", "text_maker", "judge"])
        tallies, newest = defaultdict[str, Counter[Makers]](Counter), dict[tuple[str, Makers], float]()
        for row in groups.aggregate([([], "count_all"), ("time", "max")]).to_pylist():
            makers = Makers(row["text_maker"], row["judge"])
            if not people.intersection(makers):
                tallies[row["dataset"]][makers] += row["count_all"]
                newest[row["dataset"], makers] = row["time_max"]
        is_by_people = pc.is_in(self.rows["judge"], value_set=self._people)
        answered, counted = set(self.rows["subject"].filter(is_by_people).to_pylist()), set[str]()
        for drawing in drawings if answered else ():
            is_of_judge = drawing.makers.judge or drawing.dataset not in self._judged
            if drawing.question == self.question.name and is_of_judge:
                drawn = {row["subject"] for row in read_drawn_items(stores, drawing)} & answered - counted
                counted |= drawn
                tallies[drawing.dataset][drawing.makers] += len(drawn)
        populations = dict[str, Population]()
        for dataset, counts in sorted(tallies.items()):
            makers = max(counts, key=lambda known: (counts[known], known))
            if counts[makers]:
                counted_now = (counts[makers], by_anybody[dataset], total[dataset])
                populations[dataset] = Population(makers, *counted_now, newest.get((dataset, makers), 0.0))
        return populations


def _list_rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in rows.to_batches(_ROWS_AT_ONCE):
        yield from batch.to_pylist()


def _count_values(column: pa.ChunkedArray) -> Counter[str]:
    import pyarrow.compute as pc

    return Counter({row["values"]: row["counts"] for row in pc.value_counts(column).to_pylist()})


def _read_rows(stores: Stores, question: MeasuredQuestion) -> pa.Table:
    """All rows of a question; a text that there is not is "", and a grade without a time was made before all others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = stores.tables.segments if question.annotator else stores.tables.episodes
    known = table.columns()
    names = {
        "subject": "annotation_id" if question.annotator else "episode_id",
        "episode_id": "episode_id",
        "text_maker": "maker_id",
        "judge": question.maker,
        "word": question.verdict or question.value,
        **({"time": "grade_time", "is_refuted": "grade_refuted"} if question.refused else {}),
    }
    names = {name: column for name, column in names.items() if column in known}
    shown = stores.tables.episodes.read_columns(["episode_id", "dataset"])
    has_word = question.verdict or question.value
    if has_word and not question.refused and len({"judge", "word"} & names.keys()) < 2:
        shown, names = shown.slice(0, 0), {}
    if not names:
        rows = shown
    elif question.annotator:
        condition = f"annotator = {quote_literal(question.annotator)} AND text <> ''"
        rows = stores.tables.segments.scan(list(dict.fromkeys(names.values())), condition)
    else:
        # A text that a person wrote is not of the source: it is no more measured.
        rewritten = "instruction_original" in stores.tables.episodes.columns()
        recorded = "instruction <> ''" + " AND instruction_original IS NULL" * rewritten
        valued = f"{question.value} IS NOT NULL"
        condition = "" if question.verdict else valued if question.value else recorded
        rows = stores.tables.episodes.read_columns(list(dict.fromkeys(names.values())), condition)
    positions = pc.index_in(rows["episode_id"], shown["episode_id"].combine_chunks())
    dataset = shown["dataset"].combine_chunks().take(positions)
    columns = {"dataset": dataset, **{name: rows[column] for name, column in names.items()}}
    if question.value and "word" in columns:
        word = columns["word"]
        is_list = pa.types.is_list(word.type)
        columns["word"] = pc.binary_join(word, ", ") if is_list else pc.cast(word, pa.string())
    empty = {**dict.fromkeys(_TEXTS, ""), "time": 0.0, "is_refuted": False}
    whole = {
        name: pc.fill_null(columns[name], value) if name in columns else pa.repeat(value, len(rows))
        for name, value in empty.items()
    }
    # Segments of removed episodes may follow later.
    return pa.table(whole).filter(pc.is_valid(positions))


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


def draw_measurement(
    stores: Stores,
    subjects: Subjects,
    dataset: str,
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
        subjects: What could be asked about.
        dataset: The dataset.
        population: What of it is measured.
        person: Who draws.
        known: Subjects that people have answered: they are not asked again.
        before: The drawing before of the same makers, if there is one.

    Raises:
        StoreError: It cannot be written.
    """
    question, makers, now = subjects.question, population.makers, time.time()
    seed = before.queue.seed if before else secrets.randbits(48)
    # In the tables an answered text is by the person who answered, and no more by the judge.
    answered = [row for row in read_drawn_items(stores, before) if row["subject"] in known] if before else []

    def draw(words: Collection[str], most: int) -> tuple[list[Mapping[str, Any]], int]:
        """Rows with one of some words, and from how many they are drawn."""
        again = [row for row in answered if not question.verdict or row["word"] in words]
        new = subjects.of_makers(makers, dataset, words, [row["subject"] for row in answered])
        return draw_rows(chain(again, _list_rows(new)), most, seed), len(again) + len(new)

    accepted, number = draw(list(question.words), _MOST_ACCEPTED)
    refused = draw([question.refused], _MOST_REFUSED)[0] if question.refused else []
    generator = random.Random(f"{seed}/{now!r}")
    items: list[Json] = [
        {
            "subject": row["subject"],
            "episode_id": row["episode_id"],
            "people": 0 if row["subject"] in known else 2 if generator.random() < _REPEAT else 1,
            "word": row["word"],
        }
        for row in _mix_refused(accepted, refused, generator)
    ]
    recipe: dict[str, Json] = {
        "measure": question.name,
        "dataset": dataset,
        "makers": list(makers),
        "time": now,
        "accepted": number,
    }
    name = f"measure-{hashlib.blake2b(repr(recipe).encode(), digest_size=4).hexdigest()}"
    request = QueueRequest(name=name, question=question.answered, person=person, seed=seed, recipe=recipe)
    drawing = find_drawing(write_queue(stores, request, items))
    assert drawing is not None
    return drawing


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
