"""How a review queue is made: items drawn at random, or in the order of what an audit is surest of."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ares.console import count_of
from ares.episode import Json
from ares.errors import RequestError
from ares.names import check_name
from ares.review.answers import (
    ACCEPTABLE,
    INSTRUCTION,
    SUCCESS,
    format_attribute,
    is_about_attribute,
    is_about_episode,
)
from ares.review.labels import person_settings
from ares.rubric import RESERVED_CRITERIA
from ares.store import batched, ids_filter

if TYPE_CHECKING:
    from ares.settings import Settings
    from ares.store import Stores


# Kinds of documents: headers, and blocks of items.
QUEUES, ITEMS = "review_queues", "review_items"
BLOCK_ITEMS = 1_000
_LONGEST_GUIDELINE = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue as it was made; nothing of it changes later.

    Attributes:
        name: Its name.
        question: "acceptable", "success", "instruction", a criterion such as "VERB", or an attribute.
        items: Number of items.
        doubled: How many items two people are asked.
        seed: Of the draw.
        recipe: How the candidates were selected.
        guideline: Text with examples, for whoever answers.
        person: Who made it.
        created: ISO 8601 time in UTC.
    """

    name: str
    question: str
    items: int
    doubled: int
    seed: int
    recipe: Mapping[str, Json]
    guideline: str
    person: str
    created: str

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {**asdict(self), "recipe": dict(self.recipe)}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRequest:
    """How a queue is to be made.

    Attributes:
        name: Its name, see `ares.names.check_name`; without "/".
        question: "acceptable", "success", "instruction", or a criterion of the rubric.
        person: Who makes it.
        random_items: How many items are drawn at random.
        repeat: Share of the items that two people are asked.
        seed: Of the draw.
        guideline: Text with examples; "" for that of the lab or, without one, of the question.
        annotator: Whose texts are asked about; "" for all texts.
        recipe: How the episodes were selected, for the record.

    Raises:
        RequestError: The text cannot be a name, or a number is out of its range.
    """

    name: str
    question: str
    person: str
    random_items: int = 60
    repeat: float = 0.1
    seed: int = 0
    guideline: str = ""
    annotator: str = ""
    recipe: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("queue", self.name, without="/")
        if self.random_items < 1 or not 0 <= self.repeat <= 1:
            raise RequestError("a queue needs items", "ask about 1 or more, and of a share from 0 to 1 twice")
        person_settings(self.person)


def create_queue(
    stores: Stores,
    request: QueueRequest,
    episode_ids: Iterable[str],
    order: Mapping[str, float] | None = None,
) -> Queue:
    """Make a queue of items that are drawn at random; who is asked what is fixed here.

    Args:
        stores: Stores of the workspace.
        request: How.
        episode_ids: The episodes that may be asked about.
        order: Numbers by episode: all are asked about, the highest first, and nothing is drawn.

    Raises:
        RequestError: The name exists, or there is nothing to ask about.
        StoreError: It cannot be written.
    """
    attributes = filter(is_about_attribute, stores.tables.episodes.columns())
    known = [ACCEPTABLE, SUCCESS, INSTRUCTION, *sorted(attributes), *list_criteria(stores)]
    if request.question not in known:
        raise RequestError(f"no question {request.question!r}", f"there are: {', '.join(known)}")
    candidates = _find_candidates(stores, request, episode_ids)
    if order is None:
        drawn = _put_disagreement_first(
            stores, request, draw_rows(candidates, request.random_items, request.seed)
        )
    else:
        drawn = sorted(candidates, key=lambda row: -order[row["episode_id"]])
    if not drawn:
        kind = "episode" if is_about_episode(request.question) else request.annotator or "text"
        remedy = f"; `ares annotate {kind}` makes them" if kind == request.annotator else ""
        raise RequestError("there is nothing to ask about", f"no {kind} is selected{remedy}")
    doubled = {*random.Random(request.seed).sample(range(len(drawn)), round(request.repeat * len(drawn)))}
    rows: list[Json] = [{**row, "people": 2 if number in doubled else 1} for number, row in enumerate(drawn)]
    return write_queue(stores, request, rows)


def draw_rows(rows: Iterable[Mapping[str, Any]], count: int, seed: int) -> list[Mapping[str, Any]]:
    """The rows with the smallest random numbers, in their order; of any number of rows some are in memory.

    Args:
        rows: Rows with "subject": each subject has the same number in every draw of a seed.
        count: How many are drawn.
        seed: Of the random numbers.
    """

    def number(row: Mapping[str, Any]) -> bytes:
        return hashlib.blake2b(f"{seed}/{row['subject']}".encode(), digest_size=16).digest()

    return heapq.nsmallest(count, rows, key=number)


def _put_disagreement_first(
    stores: Stores, request: QueueRequest, rows: list[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The rows in the order of how little the samples of their captions agree; without samples as they are."""
    column = f"{request.annotator}_agreement"
    if is_about_episode(request.question) or column not in stores.tables.episodes.columns():
        return rows
    where = ids_filter([row["episode_id"] for row in rows])
    values = stores.tables.episodes.read_columns(["episode_id", column], where).to_pylist()
    agreements = {row["episode_id"]: row[column] for row in values if row[column] is not None}
    return sorted(rows, key=lambda row: agreements.get(row["episode_id"], 1.0))


def write_queue(stores: Stores, request: QueueRequest, rows: Sequence[Json]) -> Queue:
    """Store a queue of items, each with "subject", "episode_id" and "people", how many are asked.

    The items are written before the header: what was begun and not finished is no queue.

    Raises:
        RequestError: The name exists.
        StoreError: It cannot be written.
    """
    items = cast("Sequence[Mapping[str, Any]]", rows)
    queue = Queue(
        name=request.name,
        question=request.question,
        items=len(items),
        doubled=sum(row["people"] > 1 for row in items),
        seed=request.seed,
        recipe=request.recipe,
        guideline=request.guideline or usual_guideline(stores.settings, request.question),
        person=request.person,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    log = stores.annotations
    conflict = RequestError(f"there is a queue {queue.name!r}", "give another name")
    if log.get_document(QUEUES, queue.name) is not None:
        raise conflict
    for number, block in enumerate(batched(rows, BLOCK_ITEMS)):
        log.put_documents(ITEMS, {f"{queue.name}/{number:06d}": list[Json](block)})
    if not log.claim_document(QUEUES, queue.name, queue.to_json()):
        raise conflict
    return queue


@lru_cache(1)
def shipped_guidelines() -> Mapping[str, str]:
    """Guidelines with examples, by question."""
    import yaml

    text = files("ares.review").joinpath("guidelines.yaml").read_text(encoding="utf-8")
    guidelines: dict[str, str] = yaml.safe_load(text)
    return guidelines


def usual_guideline(settings: Settings, question: str) -> str:
    """The guideline of a question: that of the lab (ARES_REVIEW_GUIDELINE), else one with examples of its kind.

    Raises:
        RequestError: The file of the lab cannot be read, or has more than 100,000 characters.
    """
    if not settings.review_guideline:
        kind = ACCEPTABLE if is_about_attribute(question) else question
        return shipped_guidelines().get(kind, shipped_guidelines()["criterion"])
    try:
        text = Path(settings.review_guideline).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(
            "the guideline cannot be read", f"{settings.review_guideline!r}: {error}"
        ) from None
    if len(text) > _LONGEST_GUIDELINE:
        raise RequestError(
            "the guideline is too long", f"{count_of(len(text), 'character', comma=True)}, at most 100,000"
        )
    return text


def list_criteria(stores: Stores) -> list[str]:
    """The criteria on which judges have ruled, by name."""
    prefix = "grade_"
    texts = (name for name, kind in stores.tables.segments.columns().items() if kind == "string")
    names = (name.removeprefix(prefix).upper() for name in texts if name.startswith(prefix))
    return sorted(name for name in names if name not in RESERVED_CRITERIA)


def _find_candidates(
    stores: Stores, request: QueueRequest, episode_ids: Iterable[str]
) -> Iterator[dict[str, str]]:
    """Yield what may be asked about, without its text, in an order that does not change: there may be a million."""
    annotator = request.annotator
    for ids in batched(episode_ids, BLOCK_ITEMS):
        where = ids_filter(ids)
        value = [request.question] if is_about_attribute(request.question) else []
        table = stores.tables.episodes.read_columns(["episode_id", *value], where)
        shown = table["episode_id"].to_pylist()
        if is_about_episode(request.question):
            words = dict(zip(shown, table[value[0]].to_pylist(), strict=True)) if value else {}
            for id in sorted(shown if not value else (id for id in shown if words[id] is not None)):
                word = {"word": format_attribute(words[id])} if value else {}
                yield {"subject": id, "episode_id": id, **word}
            continue
        columns, known = ["annotation_id", "episode_id", "annotator", "text"], set(shown)
        rows = stores.tables.segments.scan(columns, where).to_pylist()
        subjects = sorted(
            (row["annotation_id"], row["episode_id"])
            for row in rows
            if row["text"] and row["episode_id"] in known and annotator in ("", row["annotator"])
        )
        yield from ({"subject": subject, "episode_id": episode_id} for subject, episode_id in subjects)


def list_queues(stores: Stores) -> list[Queue]:
    """All queues by name. Raises StoreError."""
    return [queue_from_json(document) for _, document in stores.annotations.find_documents(QUEUES)]


def queue_from_json(document: Json) -> Queue:
    """The queue that `Queue.to_json` wrote; those of earlier versions have strata, too."""
    stored = cast("dict[str, Any]", document)
    return Queue(**{name: stored[name] for name in Queue.__dataclass_fields__})
