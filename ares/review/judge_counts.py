"""What judges say of all episodes: how much they accept, by criterion, dataset, producer, time and known success."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ares.review.allocation import judged_columns
from ares.review.answers import ACCEPTABLE, SUCCESS
from ares.review.estimates import ShareEstimate
from ares.rubric import Verdict
from ares.statistics import wilson_interval

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.episode import Json
    from ares.store import Stores, Tables


# The column of times: months are counted, and days within one month.
_TIME = "ingested"
# The words by which what is no criterion is refused.
_REFUSED: Mapping[str, str] = {ACCEPTABLE: "not_acceptable", SUCCESS: "failure"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQuestion:
    """A question that judges answer for episodes, and the column with their answers.

    Attributes:
        name: "acceptable", "success", or a criterion such as "VERB".
        column: Filter column of the answers.
        accepted: The word there by which a judge accepts.
        refused: That by which it refuses; each other one decides nothing.
    """

    name: str
    column: str
    accepted: str
    refused: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgementCount:
    """How many episodes of a group a judge accepts and refuses.

    Attributes:
        question: What it was asked.
        group: Value of the column of the group as text; "" where the episodes have none.
        accepted: Episodes that it accepts.
        refused: Those that it refuses.
        undecided: Those by the word of the column that decides nothing ("UNSURE", "ERROR").
        first_second: Start of a span of time in seconds since 1970; None for other groups.
        end_second: Its end, not included.
    """

    question: JudgedQuestion
    group: str
    accepted: int
    refused: int
    undecided: Mapping[str, int]
    first_second: float | None = None
    end_second: float | None = None

    @property
    def total(self) -> int:
        """All episodes that it was asked about."""
        return self.accepted + self.refused + sum(self.undecided.values())

    @property
    def share(self) -> ShareEstimate | None:
        """Share of the decided ones that it accepts, with the 95 % interval of Wilson; None where none is decided."""
        decided = self.accepted + self.refused
        if not decided:
            return None
        low, high = wilson_interval(self.accepted, decided)
        return ShareEstimate(share=self.accepted / decided, low=low, high=high, method="wilson")

    def to_json(self) -> dict[str, Json]:
        """The counts as a document."""
        return {
            "question": self.question.name,
            "group": self.group,
            "accepted": self.accepted,
            "refused": self.refused,
            "undecided": dict(self.undecided),
            "share": self.share.to_json() if self.share else None,
        }


def list_judged_questions(stores: Stores) -> list[JudgedQuestion]:
    """What the judges of a workspace were asked: the whole caption, the criteria in order of their ids, success."""
    existing = stores.tables.episodes.columns()
    words = {verdict.value for verdict in Verdict}
    criteria = {
        column.name: column.name.removeprefix("grade_").upper()
        for producer in stores.annotations.producers().values()
        for column in producer.columns
        if words <= set(column.choices) and column.name in existing
    }
    whole = [
        JudgedQuestion(name=name, column=judged.verdict, accepted=judged.accepted, refused=refused)
        for name, refused in _REFUSED.items()
        if (judged := judged_columns(name)).verdict in existing
    ]
    of_criteria = [
        JudgedQuestion(name=name, column=column, accepted=Verdict.MET.value, refused=Verdict.UNMET.value)
        for column, name in sorted(criteria.items(), key=lambda item: item[1])
    ]
    # Success is of the episode, and no part of its caption.
    return sorted(
        [*whole, *of_criteria], key=lambda question: (question.name == SUCCESS, question.name != ACCEPTABLE)
    )


def count_judgements(
    stores: Stores, questions: Sequence[JudgedQuestion], group: str = "", where: str = ""
) -> list[JudgementCount]:
    """Count what judges say, by one column, in one pass over the columns of the episodes table.

    Args:
        stores: Stores of the workspace.
        questions: Of `list_judged_questions`.
        group: Column of the episodes table, such as "dataset", "grade_maker" or "ingested"; "" counts all together.
        where: SQL filter over the episode columns.

    Returns:
        By question and group, the largest groups first, and times in their order. Nothing where the table lacks the
        column of the group.

    Raises:
        RequestError: The filter is wrong.
        StoreError: The table cannot be read.
    """
    if group and group not in stores.tables.episodes.columns():
        return []
    unit = "month"
    tallies = _tally_words(stores.tables, questions, group, where, unit)
    if group == _TIME and len({key for _, key in tallies}) < 2:
        # A month is no course of time: days are.
        unit = "day"
        tallies = _tally_words(stores.tables, questions, group, where, unit)
    counts = [_make_count(questions[number], key, words, unit) for (number, key), words in tallies.items()]
    is_time = group == _TIME
    order = {question.name: number for number, question in enumerate(questions)}
    counts.sort(
        key=lambda count: (
            order[count.question.name],
            (count.first_second or 0.0) if is_time else -count.total,
            count.group,
        )
    )
    return [count for count in counts if count.total]


def _tally_words(
    tables: Tables, questions: Sequence[JudgedQuestion], group: str, where: str, unit: str
) -> dict[tuple[int, object], Counter[str]]:
    """How often each word occurs, by the number of the question and the value of the group."""
    columns = list(dict.fromkeys([*([group] if group else []), *(item.column for item in questions)]))
    tallies: dict[tuple[int, object], Counter[str]] = {}
    for batch in tables.episodes.scan(columns, where) if questions else ():
        keys = _keys_of_batch(batch, group, unit)
        for number, question in enumerate(questions):
            for key, word, count in _count_pairs(keys, batch[question.column]):
                tallies.setdefault((number, key), Counter())[word] += count
    return tallies


def _keys_of_batch(batch: pa.RecordBatch, group: str, unit: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not group:
        return pa.nulls(batch.num_rows, pa.string())
    return pc.floor_temporal(batch[group], unit=unit) if group == _TIME else batch[group]


def _count_pairs(keys: pa.Array, words: pa.Array) -> Iterator[tuple[object, str, int]]:
    """Equal pairs of a group and a word with their number; rows without a word are left out."""
    import pyarrow as pa

    table = pa.table({"key": keys, "word": words}).filter(words.is_valid())
    for row in table.group_by(["key", "word"]).aggregate([([], "count_all")]).to_pylist():
        yield row["key"], str(row["word"]), int(row["count_all"])


def _make_count(question: JudgedQuestion, key: object, words: Counter[str], unit: str) -> JudgementCount:
    """What the words of a column say; "NA" was not asked."""
    rest = {
        word: count
        for word, count in sorted(words.items())
        if word not in (question.accepted, question.refused, Verdict.NA.value)
    }
    span = _span_of_time(key, unit) if isinstance(key, datetime) else None
    return JudgementCount(
        question=question,
        group=_format_key(key, unit),
        accepted=words[question.accepted],
        refused=words[question.refused],
        undecided=rest,
        first_second=span[0] if span else None,
        end_second=span[1] if span else None,
    )


def _span_of_time(start: datetime, unit: str) -> tuple[float, float]:
    """Start and end of a month or a day, in seconds since 1970."""
    # The longest month has 31 days: a day later is the next one.
    end = (start + timedelta(days=32)).replace(day=1) if unit == "month" else start + timedelta(days=1)
    return start.timestamp(), end.timestamp()


def _format_key(key: object, unit: str) -> str:
    if isinstance(key, datetime):
        return f"{key:%Y-%m}" if unit == "month" else f"{key:%Y-%m-%d}"
    if isinstance(key, bool):
        return "true" if key else "false"
    return "" if key is None else str(key)
