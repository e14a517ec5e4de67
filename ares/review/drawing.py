"""How a review queue is made: items drawn at random, or in the order of what an audit is surest of."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ares.console import count_of
from ares.episode import Json
from ares.errors import RequestError
from ares.names import check_name
from ares.review.answers import ACCEPTABLE, INSTRUCTION, SUCCESS
from ares.review.labels import person_settings
from ares.rubric import RESERVED_CRITERIA
from ares.store import batched, ids_filter

if TYPE_CHECKING:
    from ares.settings import Settings
    from ares.store import Stores


# Kinds of documents: headers, and blocks of items.
QUEUES, ITEMS = "review_queues", "review_items"
BLOCK_ITEMS = 1_000
QUESTIONS_OF_EPISODES = (SUCCESS, INSTRUCTION)
_OF_TEXTS = """Say what the picture shows, not what was probably meant.

- met: everything that is said can be seen, or nothing speaks against it and the rest is seen.
- unmet: at least one thing that is said is wrong: the object, the place, the arm, the count or the outcome.
- cannot tell: no camera shows what would decide it."""
# Guidelines with examples, by question; a criterion has the one of "criterion".
GUIDELINES: Mapping[str, str] = {
    ACCEPTABLE: f"""{_OF_TEXTS}

Examples
- "put the mug on the shelf"; a cup with a handle ends on the shelf: met. Another word for the same thing is as good.
- "open the drawer"; the arm pulls, and the drawer stays shut: unmet, since it is not opened. \
"fail to open the drawer" would be met.
- "pick up the screw with the left arm"; the hand hides whether it holds anything: cannot tell.""",
    "criterion": f"""{_OF_TEXTS}

Answer about this one criterion, also where another part of the text is wrong.

Examples
- VERB, "push the drawer shut"; the drawer is pulled open: unmet. That it is the right drawer counts under OBJECT.
- OBJECT, "pick up the red bowl"; a blue bowl is picked up: met, since it is a bowl. The colour counts under ATTRIBUTES.
- DESTINATION, "put the cube in the bin"; the cube falls beside the bin: met where the arm goes for the bin, \
since the place is the one that is meant. That it fails counts under OUTCOME.""",
    SUCCESS: """Say how the episode ends, by what its task asks for. What happens on the way does not count.

- success: the end state that the task asks for is there in the last frames.
- failure: it is not there, or something was broken or knocked over for it. Then give a kind and a severity.
- cannot tell: no camera shows the end state, or the episode ends before it.

Examples
- "put the cube in the bin"; dropped once, picked up again, in the bin at the end: success.
- "close the drawer"; a finger wide is open at the end: failure, not finished.
- "pick up the mug"; the arm leaves the picture with closed fingers: cannot tell.""",
    INSTRUCTION: """Say whether the instruction is the one of this episode, whether or not the robot manages it.

- met: the robot does or tries what is said.
- unmet: it does or tries something else. Then write what it does, in the words that the dataset uses.
- cannot tell: the instruction fits, and another one would fit as well.

Examples
- "open the drawer"; the arm reaches for the handle and slips: met. A failure does not make the instruction wrong.
- "put the banana in the bowl"; the arm moves a block to a tower: unmet, "stack the blocks".
- "do the task"; the arm folds a towel: unmet, "fold the towel". A text that fits everything says nothing.""",
    "text": """Write one sentence that says what the robot does: verb, object, place, in the words of the dataset.

Examples
- "robot arm moving" of an arm that closes a drawer: "close the drawer".
- "pick up the cup and the plate" where only the cup is picked up: "pick up the cup".
- "open the microwave" where it stays shut: "fail to open the microwave".""",
    "boundary": """A segment begins where the hand starts to move for it, and ends where the thing rests or is held.

Examples
- "reach for the mug", "lift the mug": the boundary is where the fingers are closed, not where they touch.
- "place the cube", "return": the boundary is where the fingers are open and the cube rests.
- A pause belongs to the segment before it.""",
}
_LONGEST_GUIDELINE = 100_000
# Why an item is asked: it was drawn at random, or an audit named it.
RANDOM, _WORTH = "random", "worth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue as it was made; nothing of it changes later.

    Attributes:
        name: Its name.
        question: "acceptable", "success", "instruction", or a criterion such as "VERB".
        items: Number of items.
        random_items: How many of them, the first, were drawn at random.
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
    random_items: int
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
            raise RequestError("a queue needs items", "give --random 1 or more, and --repeat from 0 to 1")
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
    if request.question not in (ACCEPTABLE, *QUESTIONS_OF_EPISODES):
        check_criterion(stores, request.question)
    candidates = list(_find_candidates(stores, request, episode_ids))
    if not candidates:
        kind = "episode" if request.question in QUESTIONS_OF_EPISODES else request.annotator or "text"
        raise RequestError("there is nothing to ask about", f"no {kind} is selected")
    generator = random.Random(request.seed)
    if order is None:
        drawn = generator.sample(candidates, min(request.random_items, len(candidates)))
    else:
        drawn = sorted(candidates, key=lambda row: -order[row.episode_id])
    doubled = set(generator.sample(range(len(drawn)), round(request.repeat * len(drawn))))
    rows: list[Json] = [
        {
            "subject": row.subject,
            "episode_id": row.episode_id,
            "drawn": RANDOM if order is None else _WORTH,
            "people": 2 if number in doubled else 1,
        }
        for number, row in enumerate(drawn)
    ]
    return write_queue(stores, request, rows)


def write_queue(stores: Stores, request: QueueRequest, rows: Sequence[Json]) -> Queue:
    """Store a queue of items, each with "subject", "episode_id", "drawn" and "people", how many are asked.

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
        random_items=sum(row["drawn"] == RANDOM for row in items),
        doubled=sum(row["people"] > 1 for row in items),
        seed=request.seed,
        recipe=request.recipe,
        guideline=request.guideline or usual_guideline(stores.settings, request.question),
        person=request.person,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    log, is_new = stores.annotations, RequestError(f"there is a queue {queue.name!r}", "give another name")
    if log.get_document(QUEUES, queue.name) is not None:
        raise is_new
    for number, block in enumerate(batched(rows, BLOCK_ITEMS)):
        log.put_documents(ITEMS, {f"{queue.name}/{number:06d}": list[Json](block)})
    if not log.claim_document(QUEUES, queue.name, queue.to_json()):
        raise is_new
    return queue


def usual_guideline(settings: Settings, question: str) -> str:
    """The guideline of a question: that of the lab (ARES_REVIEW_GUIDELINE), else one with examples of its kind.

    Raises:
        RequestError: The file of the lab cannot be read.
    """
    if settings.review_guideline:
        return read_guideline(Path(settings.review_guideline))
    return GUIDELINES.get(question, GUIDELINES["criterion"])


def read_guideline(path: Path) -> str:
    """The text of a file. Raises RequestError where it cannot be read or has more than 100,000 characters."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError("the guideline cannot be read", f"{str(path)!r}: {error}") from None
    if len(text) > _LONGEST_GUIDELINE:
        raise RequestError(
            "the guideline is too long", f"{count_of(len(text), 'character', comma=True)}, at most 100,000"
        )
    return text


def list_criteria(stores: Stores) -> list[str]:
    """The criteria on which judges have ruled, by name."""
    prefix = "grade_"
    names = (
        name.removeprefix(prefix).upper()
        for name, kind in stores.tables.segments.columns().items()
        if name.startswith(prefix) and kind == "string"
    )
    return sorted(name for name in names if name not in RESERVED_CRITERIA)


def check_criterion(stores: Stores, criterion: str) -> None:
    """Raise RequestError for a question that is no criterion on which a judge has ruled."""
    if criterion not in (known := list_criteria(stores)):
        names = ", ".join([ACCEPTABLE, *QUESTIONS_OF_EPISODES, *known])
        raise RequestError(f"no question {criterion!r}", f"there are: {names}")


class _Candidate(NamedTuple):
    """What may be asked about, without its text: there may be a million."""

    subject: str
    episode_id: str


def _find_candidates(
    stores: Stores, request: QueueRequest, episode_ids: Iterable[str]
) -> Iterator[_Candidate]:
    """Yield what may be asked about, in an order that does not change."""
    for ids in batched(episode_ids, BLOCK_ITEMS):
        where = ids_filter(ids)
        shown = stores.tables.episodes.read_columns(["episode_id"], where)["episode_id"].to_pylist()
        if request.question in QUESTIONS_OF_EPISODES:
            yield from (_Candidate(episode_id, episode_id) for episode_id in sorted(shown))
            continue
        columns, known = ["annotation_id", "episode_id", "annotator", "text"], set(shown)
        rows = stores.tables.segments.scan(columns, where).to_pylist()
        yield from sorted(
            _Candidate(row["annotation_id"], row["episode_id"])
            for row in rows
            if row["text"] and row["episode_id"] in known and request.annotator in ("", row["annotator"])
        )


def list_queues(stores: Stores) -> list[Queue]:
    """All queues by name. Raises StoreError."""
    return [queue_from_json(document) for _, document in stores.annotations.find_documents(QUEUES)]


def queue_from_json(document: Json) -> Queue:
    """The queue that `Queue.to_json` wrote; those of earlier versions have strata, too."""
    stored = cast("dict[str, Any]", document)
    return Queue(**{name: stored[name] for name in Queue.__dataclass_fields__})
