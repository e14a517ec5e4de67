"""How a review queue is made: a random part within strata, then the answers that narrow the interval most."""

from __future__ import annotations

import heapq
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ares.console import count_of
from ares.episode import Json
from ares.errors import RequestError
from ares.names import check_name
from ares.review.allocation import (
    StratumCounts,
    allocate_answers,
    is_drawn_within_stratum,
    item_stratum,
    judged_cell,
    judged_columns,
    stratum_name,
)
from ares.review.answers import ACCEPTABLE, INSTRUCTION, SUCCESS
from ares.review.labels import person_settings
from ares.review.person_labels import ALLOCATED, MET, read_labelled_items
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
# What an answer about a candidate is worth, by its columns.
Worth = Callable[[Mapping[str, Any]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue as it was made; nothing of it changes later.

    Attributes:
        name: Its name.
        question: "acceptable", "success", "instruction", or a criterion such as "VERB".
        items: Number of items.
        random_items: How many of them, the first, were drawn at random within strata.
        doubled: How many items two people are asked.
        strata: By stratum how many candidates it has, and how many of them were drawn at random.
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
    strata: Mapping[str, tuple[int, int]]
    seed: int
    recipe: Mapping[str, Json]
    guideline: str
    person: str
    created: str

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {
            **asdict(self),
            "strata": {name: list[Json](counts) for name, counts in self.strata.items()},
            "recipe": dict(self.recipe),
        }


def grade_margin_worth(row: Mapping[str, Any]) -> float:
    """The worth of an answer where nothing is calibrated: what is undecided first, then what is least sure."""
    if row.get("grade") not in ("acceptable", "not_acceptable"):
        return 1.0
    margin = row.get("grade_margin")
    return 1.0 - (1.0 if margin is None else float(margin))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRequest:
    """How a queue is to be made.

    Attributes:
        name: Its name, see `ares.names.check_name`; without "/".
        question: "acceptable", "success", "instruction", or a criterion of the rubric.
        person: Who makes it.
        random_items: How many items are drawn at random; a stratum is a dataset with a grade.
        worth_items: How many more items come, those first whose answer narrows the interval most; they are drawn at
            random within strata of the judge's word and how sure it is, so that they estimate, too.
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
    worth_items: int = 0
    repeat: float = 0.1
    seed: int = 0
    guideline: str = ""
    annotator: str = ""
    recipe: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("queue", self.name, without="/")
        is_empty = min(self.random_items, self.worth_items) < 0 or self.random_items + self.worth_items < 1
        if is_empty or not 0 <= self.repeat <= 1:
            raise RequestError("a queue needs items", "give --random 1 or more, and --repeat from 0 to 1")
        person_settings(self.person)


def create_queue(
    stores: Stores,
    request: QueueRequest,
    episode_ids: Iterable[str],
    members: Collection[str] = (),
    worth: Worth | None = None,
) -> Queue:
    """Make a queue: a random part within strata, whose size is fixed here, then what an answer is worth most.

    What is worth most is what narrows the interval of the share of true items most, by what people answered so far; see
    `allocate_answers`. Members of a set, or what `worth` puts first, are not drawn at random and estimate nothing.

    Args:
        stores: Stores of the workspace.
        request: How.
        episode_ids: The episodes that may be asked about.
        members: Episodes of a set, which come before others among those that are worth most.
        worth: What the answer about a candidate is worth, by its columns; None for what narrows the interval, and
            for members of a set what the judge is least sure of.

    Raises:
        RequestError: The name exists, or there is nothing to ask about.
        StoreError: It cannot be written.
    """
    if request.question not in (ACCEPTABLE, *QUESTIONS_OF_EPISODES):
        _check_criterion(stores, request.question)
    candidates = list(_find_candidates(stores, request, episode_ids, worth or grade_margin_worth))
    if not candidates:
        kind = "episode" if request.question in QUESTIONS_OF_EPISODES else request.annotator or "text"
        raise RequestError("there is nothing to ask about", f"no {kind} is selected")
    generator = random.Random(request.seed)
    drawn, strata = _draw_within_strata(candidates, request.random_items, generator)
    rows = [(row, "random") for row in drawn]
    if members or worth is not None:
        subjects, member_ids = {row.subject for row in drawn}, set(members)
        rest = (row for row in candidates if row.subject not in subjects)
        best = heapq.nlargest(
            request.worth_items, rest, key=lambda row: (row.episode_id in member_ids, row.worth)
        )
        rows += [(row, "worth") for row in best]
    elif request.worth_items:
        rows += [(row, ALLOCATED) for row in _allocate_items(stores, request, candidates, drawn, generator)]
    doubled = set(generator.sample(range(len(rows)), round(request.repeat * len(rows))))
    queue = Queue(
        name=request.name,
        question=request.question,
        items=len(rows),
        random_items=len(drawn),
        doubled=len(doubled),
        strata=strata,
        seed=request.seed,
        recipe=request.recipe,
        guideline=request.guideline or usual_guideline(stores.settings, request.question),
        person=request.person,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    _write_queue(stores, queue, rows, doubled)
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


def _check_criterion(stores: Stores, criterion: str) -> None:
    prefix = "grade_"
    graded = {name for name in stores.tables.segments.columns() if name.startswith(prefix)}
    if f"{prefix}{criterion.lower()}" not in graded or criterion in RESERVED_CRITERIA:
        names = sorted(name.removeprefix(prefix).upper() for name in graded)
        known = ", ".join(name for name in names if name not in RESERVED_CRITERIA)
        raise RequestError(
            f"no question {criterion!r}", f"there are: acceptable, success, instruction, {known}"
        )


def _write_queue(
    stores: Stores, queue: Queue, rows: Sequence[tuple[_Candidate, str]], doubled: Collection[int]
) -> None:
    """Write the items before the header: what was begun and not finished is no queue."""
    log = stores.annotations
    if log.get_document(QUEUES, queue.name) is not None:
        raise RequestError(f"there is a queue {queue.name!r}", "give another name")
    items: list[Json] = [
        {
            "subject": row.subject,
            "episode_id": row.episode_id,
            "stratum": row.cell if drawn == ALLOCATED else row.stratum,
            "drawn": drawn,
            "people": 2 if number in doubled else 1,
        }
        for number, (row, drawn) in enumerate(rows)
    ]
    for number, block in enumerate(batched(items, BLOCK_ITEMS)):
        log.put_documents(ITEMS, {f"{queue.name}/{number:06d}": list[Json](block)})
    if not log.claim_document(QUEUES, queue.name, queue.to_json()):
        raise RequestError(f"there is a queue {queue.name!r}", "give another name")


class _Candidate(NamedTuple):
    """What may be asked about, without its text: there may be a million."""

    subject: str
    episode_id: str
    stratum: str
    cell: str
    worth: float


def _find_candidates(
    stores: Stores, request: QueueRequest, episode_ids: Iterable[str], worth: Worth
) -> Iterator[_Candidate]:
    """Yield what may be asked about."""
    episodes, segments, annotator = stores.tables.episodes, stores.tables.segments, request.annotator
    is_of_episodes, judged = request.question in QUESTIONS_OF_EPISODES, judged_columns(request.question)
    named = {"grade", "grade_margin", judged.verdict, judged.certainty, judged.producer}
    judge_columns = sorted(named & set((episodes if is_of_episodes else segments).columns()))
    for ids in batched(episode_ids, BLOCK_ITEMS):
        where = ids_filter(ids)
        columns = ["episode_id", "dataset", *(judge_columns if is_of_episodes else ())]
        rows = episodes.read_columns(columns, where).to_pylist()
        datasets = {row["episode_id"]: row["dataset"] for row in rows}
        if not is_of_episodes:
            columns = ["annotation_id", "episode_id", "annotator", "text", *judge_columns]
            of_segments = segments.scan(columns, where).to_pylist()
            rows = [row for row in of_segments if row["text"] and annotator in ("", row["annotator"])]
        for row in sorted(rows, key=lambda row: (row["episode_id"], row.get("annotation_id", ""))):
            if row["episode_id"] in datasets:
                dataset = datasets[row["episode_id"]]
                cell = judged_cell(request.question, row.get(judged.verdict), row.get(judged.certainty))
                yield _Candidate(
                    row.get("annotation_id") or row["episode_id"],
                    row["episode_id"],
                    sys.intern(f"{dataset}/{row.get('grade') or 'not graded'}"),
                    sys.intern(stratum_name(dataset, row.get(judged.producer) or "", cell)),
                    worth(row),
                )


def _allocate_items(
    stores: Stores,
    request: QueueRequest,
    candidates: Sequence[_Candidate],
    drawn: Sequence[_Candidate],
    generator: random.Random,
) -> list[_Candidate]:
    """Candidates beside those that were drawn, in the order in which their answers narrow the interval most."""
    recipe, queues = dict(request.recipe), list_queues(stores)
    names = {queue.name for queue in queues if dict(queue.recipe) == recipe}
    hits: dict[str, list[bool]] = defaultdict(list)
    answered: set[str] = set()
    subjects = {row.subject for row in candidates}
    for item in read_labelled_items(stores, question=request.question):
        if item.subject_id in subjects and item.truth and is_drawn_within_stratum(item, names):
            hits[item_stratum(item)].append(item.truth == MET)
            answered.add(item.subject_id)
    sizes, used_subjects = Counter(row.cell for row in candidates), answered | {row.subject for row in drawn}
    planned = Counter(row.cell for row in drawn if row.subject not in answered)
    free: dict[str, list[_Candidate]] = defaultdict(list)
    for row in candidates:
        if row.subject not in used_subjects:
            free[row.cell].append(row)
    strata = {
        name: StratumCounts(
            cell=name.rpartition("/")[2],
            size=size,
            labels=len(hits[name]),
            hits=sum(hits[name]),
            planned=planned[name],
            free=len(free[name]),
        )
        for name, size in sorted(sizes.items())
    }
    order = allocate_answers(strata, request.worth_items)
    requested = Counter(order)
    selected = {name: iter(generator.sample(free[name], count)) for name, count in sorted(requested.items())}
    return [next(selected[name]) for name in order]


def _draw_within_strata(
    candidates: Sequence[_Candidate], size: int, generator: random.Random
) -> tuple[list[_Candidate], dict[str, tuple[int, int]]]:
    """Draw from each stratum in proportion to its size, by the largest remainders; in random order."""
    strata: dict[str, list[_Candidate]] = defaultdict(list)
    for row in candidates:
        strata[row.stratum].append(row)
    size = min(size, len(candidates))
    exact = {name: size * len(rows) / len(candidates) for name, rows in strata.items()}
    counts = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (counts[name] - exact[name], name))
    for name in by_remainder[: size - sum(counts.values())]:
        counts[name] += 1
    drawn = [row for name in sorted(strata) for row in generator.sample(strata[name], counts[name])]
    generator.shuffle(drawn)
    return drawn, {name: (len(strata[name]), counts[name]) for name in sorted(strata)}


def list_queues(stores: Stores) -> list[Queue]:
    """All queues by name. Raises StoreError."""
    return [queue_from_json(document) for _, document in stores.annotations.find_documents(QUEUES)]


def queue_from_json(document: Json) -> Queue:
    """The queue that `Queue.to_json` wrote."""
    fields = cast("dict[str, Any]", document)
    strata = {name: (int(counts[0]), int(counts[1])) for name, counts in fields["strata"].items()}
    return Queue(**{**fields, "strata": strata})
