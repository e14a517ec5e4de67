"""Control captions that measure a judge's errors: which are graded, and what is stored of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from random import Random
from typing import TYPE_CHECKING, Literal

from annotators.base import PaidFailure, Subject, Work
from annotators.grade.grading import GradedText, GradeOutcome
from annotators.grade.judge import ChangedFrames, blank, scrambled
from ares.episode import Json
from ares.rubric import (
    GATES,
    MAX_FALSE_FAILS_OF_CODE,
    VERDICTS_COLUMN,
    Rubric,
    choose_foreign_captions,
    flip_caption_outcome,
    make_grade_value,
    make_instruction_caption,
    parse_caption,
    rephrased_text,
    split_outcome,
)

if TYPE_CHECKING:
    from ares.store import Stores


ControlKind = Literal["foreign", "flipped", "instruction", "paraphrase", "blank", "scrambled"]

_SHARE = 0.05
# Controls of one caption: false captions, one of them with its outcome turned round; and the instruction, a paraphrase,
# blank and scrambled frames.
_FALSE_CAPTIONS, _OTHERS, _CHANGED_FRAMES = 4, 4, 2
_MOST_FALSE_CAPTIONS = 12
# Captions with controls that a dataset should have: for false captions that are worth 59 independent ones, also where
# chance draws fewer, and where controls cost nothing for 200 controls.
_CAPTIONS, _CAPTIONS_OF_FREE_JUDGE = 26, 40
_MOST_PHRASES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A grading whose right result is known.

    Attributes:
        kind: "foreign" and "flipped" are false, "instruction" is true, "paraphrase" as true as the caption; "blank" and
            "scrambled" are the caption itself on frames that show nothing of it.
        text: The text.
        work: The work with the frames.
        known_false: Whether the text is false whatever the caption is worth.
    """

    kind: ControlKind
    text: str
    work: Work
    known_false: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlan:
    """Draws captions, and makes their controls.

    Attributes:
        sizes: Captions by dataset that the run may grade.
        captions: Captions with controls wanted in each dataset.
        phrases: Phrases of instructions and captions by dataset, for captions of other tasks.
    """

    sizes: dict[str, int]
    captions: int
    phrases: Mapping[str, Sequence[str]]

    def expected(self, subject: Subject) -> float:
        """Expected number of gradings for the controls of a caption."""
        dataset = subject.episode.dataset
        return self._share(dataset) * (self._false_captions(dataset) + _OTHERS)

    def expected_changed_frames(self, subject: Subject) -> float:
        """Expected number of those of them on changed frames, each of which is observed anew."""
        return self._share(subject.episode.dataset) * _CHANGED_FRAMES

    def draw(self, work: Work, text: str) -> list[Control]:
        """The controls of a caption, none for most; the same for the same caption, whoever works on it."""
        dataset, key = work.episode.dataset, work.subject.id
        if not self.sizes or _hash_fraction(key) >= self._share(dataset):
            return []
        random = Random(f"controls {key}")
        slots = parse_caption(text)
        count = self._false_captions(dataset) - 1
        known = [parse_caption(instruction) for instruction in work.episode.instructions]
        foreign = choose_foreign_captions(slots, known, self.phrases.get(dataset, ()), count, random)
        succeeds = work.episode.success
        flipped = flip_caption_outcome(slots, succeeds)
        return [
            *(Control(kind="foreign", text=other, work=work, known_false=True) for other in foreign),
            Control(kind="flipped", text=flipped, work=work, known_false=succeeds is not None),
            *_instruction_control(work),
            Control(kind="paraphrase", text=rephrased_text(slots, random), work=work, known_false=False),
            *_without_content(work, text),
        ]

    def _share(self, dataset: str) -> float:
        share = _SHARE / (_FALSE_CAPTIONS + _OTHERS)
        return min(1.0, max(share, self.captions / max(1, self.sizes.get(dataset, 1))))

    def _false_captions(self, dataset: str) -> int:
        """More of each caption where a dataset has few."""
        size = self.sizes.get(dataset, 1)
        return min(_MOST_FALSE_CAPTIONS, max(_FALSE_CAPTIONS, ceil(self.captions * 3 / max(1, size))))


def _instruction_control(work: Work) -> list[Control]:
    """What the source says of the episode, in the form of a caption; none of a part of an episode, or without words."""
    text = make_instruction_caption(work.episode.instruction, work.episode.success)
    if not text or not work.subject.is_whole_episode:
        return []
    return [Control(kind="instruction", text=text, work=work, known_false=False)]


def _without_content(work: Work, text: str) -> list[Control]:
    kinds: tuple[tuple[ControlKind, ChangedFrames], ...] = (
        ("blank", ChangedFrames(work.frames, blank)),
        ("scrambled", ChangedFrames(work.frames, scrambled)),
    )
    return [
        Control(kind=kind, text=text, work=replace(work, frames=frames), known_false=True)
        for kind, frames in kinds
    ]


def plan_controls(stores: Stores, planned_episodes: int | None, *, is_free: bool) -> ControlPlan:
    """A plan for a run.

    Args:
        stores: Stores of the workspace.
        planned_episodes: Most episodes of the run; None outside a run, where nothing is controlled.
        is_free: Whether gradings cost no money and little time.
    """
    if not planned_episodes:
        return ControlPlan(sizes={}, captions=0, phrases={})
    sizes = {dataset: min(count, planned_episodes) for dataset, count in _count_datasets(stores).items()}
    captions = _CAPTIONS_OF_FREE_JUDGE if is_free else _CAPTIONS
    return ControlPlan(sizes=sizes, captions=captions, phrases=_read_phrases(stores))


def _count_datasets(stores: Stores) -> Counter[str]:
    """Episodes by dataset."""
    import pyarrow.compute as pc

    counts: Counter[str] = Counter()
    for batch in stores.tables.episodes.scan(["dataset"]):
        for pair in pc.value_counts(batch.column("dataset")).to_pylist():
            counts[pair["values"]] += pair["counts"]
    return counts


def _read_phrases(stores: Stores) -> dict[str, list[str]]:
    """The most frequent action phrases of instructions and captions by dataset, in alphabetical order."""
    import pyarrow as pa

    columns = [name for name in ("instruction", "caption") if name in stores.tables.episodes.columns()]
    counts: dict[str, Counter[str]] = {}
    for batch in stores.tables.episodes.scan(["dataset", *columns]):
        table = pa.Table.from_batches([batch])
        for column in columns:
            groups = table.group_by(["dataset", column]).aggregate([([], "count_all")])
            for row in groups.to_pylist():
                phrase = split_outcome(row[column] or "")[1]
                counts.setdefault(row["dataset"], Counter())[phrase] += row["count_all"]
    return {name: _most_frequent(phrases) for name, phrases in counts.items()}


def _most_frequent(phrases: Counter[str]) -> list[str]:
    return sorted(phrase for phrase, _ in phrases.most_common(_MOST_PHRASES) if phrase)


def _hash_fraction(key: str) -> float:
    """A number in [0, 1) that only the key determines."""
    return int.from_bytes(hashlib.blake2b(f"control {key}".encode(), digest_size=6).digest()) / 2**48


def make_control_value(
    own: GradedText, controls: Sequence[Control], graded: Sequence[GradeOutcome], rubric: Rubric, label: str
) -> dict[str, Json]:
    """The gradings of a caption and of its controls, and the gates, as `ares.rubric.measure_judge_trust` reads them.

    Args:
        own: The caption, graded.
        controls: Its controls.
        graded: What each came to.
        rubric: The rubric.
        label: What has to stand beside all numbers of the judge, or "".
    """
    rows: list[Json] = [{"kind": "own", "grade": own.value["grade"], "gates": own.value[VERDICTS_COLUMN]}]
    for control, result in zip(controls, graded, strict=True):
        rows.append(
            {
                "kind": control.kind,
                "text": control.text,
                "known_false": control.known_false,
                "known_outcome": control.work.episode.success is not None,
                **_control_result(result),
            }
        )
    return {"gradings": rows, "gates": _gates_with_limits(rubric), **({"label": label} if label else {})}


def _gates_with_limits(rubric: Rubric) -> list[Json]:
    """The gates of a rubric with the bounds of their false fails: those of code, and those of the judge."""
    gates: list[Json] = []
    for criterion in rubric.criteria:
        if criterion.category not in GATES:
            continue
        if criterion.hard:
            gates.append({"gate": f"{criterion.id}(code)", "limit": MAX_FALSE_FAILS_OF_CODE})
        if criterion.slot or criterion.claim:
            needs_outcome = criterion.slot == "outcome"
            limit = rubric.max_false_fails
            gates.append({"gate": criterion.id, "limit": limit, "needs_outcome": needs_outcome})
    return gates


def _control_result(result: GradeOutcome) -> dict[str, Json]:
    if isinstance(result, GradedText):
        verdicts: dict[str, Json] = {ruling.criterion: ruling.verdict.value for ruling in result.rulings}
        grades = _grades_by_judge(result)
        return {
            "grade": result.value["grade"],
            "gates": result.value[VERDICTS_COLUMN],
            "verdicts": verdicts,
            **({"grades": grades} if grades else {}),
        }
    error = result.error if isinstance(result, PaidFailure) else result
    return {"grade": "error", "reason": str(error)}


def _grades_by_judge(result: GradedText) -> dict[str, Json]:
    """The grade that each judge of a panel would have given alone; {} where no panel has voted."""
    voted = {ruling.criterion: ruling.votes for ruling in result.rulings if ruling.votes}
    judges = [vote.judge for vote in next(iter(voted.values()), ())]
    stored = result.value["rulings"]
    rulings = [ruling for ruling in stored if isinstance(ruling, dict)] if isinstance(stored, list) else []
    grades: dict[str, Json] = {}
    for number, judge in enumerate(judges):
        own = {name: votes[number].verdict.value for name, votes in voted.items()}
        own_rulings = [
            {**ruling, "verdict": own.get(str(ruling["criterion"]), ruling["verdict"])} for ruling in rulings
        ]
        grades[judge] = make_grade_value(own_rulings)["grade"]
    return grades
