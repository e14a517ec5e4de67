"""Controls that measure a judge's errors: which captions get them, which they are, and what is stored of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from random import Random
from typing import TYPE_CHECKING, Literal

from annotators.base import PaidFailure, Subject, Work
from annotators.caption import SEGMENT_CAPTION, SEGMENTERS
from annotators.grade.control_material import (
    count_outcomes,
    read_segment_statements,
    read_statements,
    read_texts,
)
from annotators.grade.grading import GradedText, GradeOutcome
from annotators.grade.judge import ChangedFrames, blank, scrambled
from annotators.grade.segment_fit import find_neighbours, slots_of
from ares.episode import Episode, Json
from ares.rubric import (
    COMPLETED,
    GATES,
    NOT_COMPLETED,
    OUTCOMES,
    VERDICTS_COLUMN,
    KnownDifferences,
    KnownText,
    NearMiss,
    Rubric,
    SlotName,
    SlotValues,
    add_note,
    choose_foreign_texts,
    compose_sentence,
    is_other_task,
    make_near_misses,
    parse_known_text,
    read_judge_trust,
    shipped_verbs,
    turn_outcome,
)
from ares.store import in_condition, quote_literal

if TYPE_CHECKING:
    from ares.store import Stores


ControlKind = Literal[
    "near_miss", "claim", "foreign", "injected", "blank", "scrambled", "outcome", "neighbour"
]
Calibrate = Literal["auto", "yes", "no"]

# Captions with controls in a calibration: of so many near misses of a slot four may be accepted for a bound of 0.10,
# and of two foreign texts of each caption three for 0.05. A judge that errs in 1 of 100 is proven by them in most runs,
# where the least that could prove it (29 and 59) would fail by the first error.
_CAPTIONS = 92
_FOREIGN = 2
# Foreign texts of each caption where a dataset has few.
_MOST_FOREIGN = 6
# Recorded outcomes of each end that are tested.
_OUTCOMES = 64
# Controls of a caption: foreign, injected, blank and scrambled, near misses of about four slots, and a wrong outcome.
_SLOTS_STATED, _CHANGED_FRAMES = 4, 2
_MOST_NEAR_MISSES = 2
# What controls may add to the calls of a run once a judge is measured, when each costs as much as a caption.
_SHARE_AFTERWARDS = 0.2
_DRAWS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A grading whose right result is known.

    Attributes:
        kind: All but "claim" and "outcome" are false in what they say, or are shown on frames that show none of it; a
            "claim" is one slot of the caption alone, an "outcome" the caption with the one that the episode does not
            have, a "neighbour" the caption of the segment before or after.
        slot: Of a near miss the slot that is wrong, of a claim its slot, else "".
        text: The sentence.
        slots: What it states.
        work: The work with the frames.
        known_false: Whether it must not be accepted.
        hides_label: Whether the judge decides on the outcome itself, although the source records it.
        only: The slot that alone is ruled on, of a neighbour "span"; "" for all criteria.
    """

    kind: ControlKind
    slot: str = ""
    text: str
    slots: SlotValues
    work: Work
    known_false: bool = True
    hides_label: bool = False
    only: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetControls:
    """How many controls the captions of one dataset get.

    Attributes:
        episodes: Its episodes, of which this run grades so many at most.
        calibrates: Whether the judge is calibrated on it in this run.
        successes: Episodes with a recorded success.
        failures: Episodes with a recorded failure.
        texts: Sentences of its instructions and captions with their slots, from which controls are made.
        differences: Which values of its slots may name one thing.
    """

    episodes: int
    calibrates: bool
    successes: int = 0
    failures: int = 0
    texts: Sequence[KnownText] = ()
    differences: KnownDifferences = field(default_factory=KnownDifferences)
    # Notes to the judge are those of a fixed list.
    invents_notes = False
    # Of segments: those before and after, whose captions are controls.
    neighbours = 0

    @property
    def share(self) -> float:
        """Share of the captions that get controls."""
        if self.calibrates:
            return min(1.0, 1.15 * _CAPTIONS / max(1, self.episodes))
        return _SHARE_AFTERWARDS / self.controls_per_caption

    @property
    def foreign(self) -> int:
        """Foreign texts of each: more where there are few captions."""
        captions = max(1, min(self.episodes, _CAPTIONS))
        return min(_MOST_FOREIGN, max(_FOREIGN, ceil(_CAPTIONS * _FOREIGN / captions)))

    @property
    def near_misses(self) -> int:
        """Near misses of each slot of a caption: more where there are few captions, some of them wrong."""
        return min(_MOST_NEAR_MISSES, max(1, ceil(_CAPTIONS * 1.6 / max(1, self.episodes))))

    @property
    def injected(self) -> int:
        """False captions of each with a note to the judge."""
        return 1

    @property
    def controls_per_caption(self) -> int:
        """Expected controls of a caption that has some, less those of outcomes, which are drawn for themselves."""
        slots = _SLOTS_STATED * (self.near_misses + 1)
        return self.foreign + self.injected + slots + _CHANGED_FRAMES + self.neighbours

    def outcome_share(self, succeeds: bool | None) -> float:
        """Share of the captions of episodes with a recorded end whose outcome is tested."""
        if succeeds is None:
            return 0.0
        episodes = self.successes if succeeds else self.failures
        if self.calibrates:
            return min(1.0, 1.15 * _OUTCOMES / max(1, episodes))
        return self.share


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentControls(DatasetControls):
    """How many controls the captions of segments of one dataset get; `episodes` is the number of captions."""

    neighbours = 2

    def outcome_share(self, succeeds: bool | None) -> float:
        """None: the outcome is the episode's."""
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackControls(DatasetControls):
    """How many controls each caption of an attack gets: those of a calibration, only more, and with other notes.

    Attributes:
        per_kind: Near misses of each slot, other captions, and notes of each caption.
    """

    per_kind: int
    invents_notes = True

    @property
    def share(self) -> float:
        """All captions get controls."""
        return 1.0

    @property
    def foreign(self) -> int:
        """Foreign texts of each."""
        return self.per_kind

    @property
    def near_misses(self) -> int:
        """Near misses of each slot of a caption."""
        return self.per_kind

    @property
    def injected(self) -> int:
        """False captions of each with a note to the judge."""
        return self.per_kind

    def outcome_share(self, succeeds: bool | None) -> float:
        """Every recorded outcome is tested."""
        return 0.0 if succeeds is None else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlan:
    """Draws captions, and makes their controls.

    Attributes:
        datasets: By name what their captions get; empty where nothing is controlled.
        verbs: The guide of verbs.
        seed: Another seed draws other controls of the same captions; None in a run.
    """

    datasets: Mapping[str, DatasetControls] = field(default_factory=dict)
    verbs: Mapping[str, str] = field(default_factory=shipped_verbs)
    seed: int | None = None

    def expected(self, subject: Subject) -> float:
        """Expected number of gradings for the controls of a caption."""
        dataset_plan = self.datasets.get(subject.episode.dataset)
        if dataset_plan is None:
            return 0.0
        return dataset_plan.share * dataset_plan.controls_per_caption + dataset_plan.outcome_share(
            subject.episode.success
        )

    def draw(
        self, work: Work, caption_slots: SlotValues, text: str, *, slot_by_slot: bool = False
    ) -> list[Control]:
        """The controls of a caption, none for most; the same for the same caption, whoever works on it.

        Args:
            work: The work about the caption.
            caption_slots: What it states.
            text: Its sentence.
            slot_by_slot: Whether the judge reads slots, so that a near miss is its wrong slot alone, beside the claim
                of the caption: a judge that has refused a caption for its object has said nothing of its places.
        """
        dataset_plan = self.datasets.get(work.episode.dataset)
        if dataset_plan is None:
            return []
        # The id of a caption holds its producer, or the time if a person wrote it: the text alone chooses controls.
        key = f"{work.episode.episode_id} {work.subject.start_seconds} {work.subject.stop_seconds} {text}"
        key += "" if self.seed is None else f" seed {self.seed}"
        caption = KnownText(text, caption_slots)
        controls: list[Control] = []
        if _hash_fraction(f"control {key}") < dataset_plan.share:
            known = [parse_known_text(text, self.verbs) for text in work.episode.instructions]
            controls += _content_controls(
                work, caption, known, dataset_plan, Random(f"controls {key}"), slot_by_slot
            )
            if dataset_plan.neighbours:
                controls += _neighbour_controls(work, caption, dataset_plan.differences)
        if _hash_fraction(f"outcome {key}") < dataset_plan.outcome_share(work.episode.success):
            controls += _outcome_controls(work, caption)
        return controls

    @property
    def calibrated_datasets(self) -> list[str]:
        """Datasets on which the judge is calibrated in this run."""
        return [name for name, dataset_plan in self.datasets.items() if dataset_plan.calibrates]


def _content_controls(
    work: Work,
    caption: KnownText,
    known: Sequence[KnownText],
    dataset: DatasetControls,
    random: Random,
    slot_by_slot: bool,
) -> list[Control]:
    """Near misses, other captions, some with a note to the judge, and the caption itself on frames without content."""
    others = random.sample(list(dataset.texts), min(len(dataset.texts), _DRAWS))
    drawn = [
        miss
        for _ in range(dataset.near_misses)
        for miss in make_near_misses(caption, others, known, random, dataset.differences)
    ]
    misses = list({(miss.slot, miss.text): miss for miss in drawn}.values())
    count = dataset.foreign + dataset.injected
    foreign = choose_foreign_texts(caption, others, known, count, random, dataset.differences)
    noted = [add_note(other, random, invents=dataset.invents_notes) for other in foreign[-dataset.injected :]]
    near = _single_slots if slot_by_slot else _whole_near_misses
    return [
        *near(work, caption, misses),
        *(
            Control(kind="foreign", text=other.text, slots=other.slots, work=work)
            for other in foreign[: dataset.foreign]
        ),
        *(Control(kind="injected", text=other.text, slots=other.slots, work=work) for other in noted),
        *_without_content(work, caption),
    ]


def _whole_near_misses(work: Work, caption: KnownText, misses: Sequence[NearMiss]) -> list[Control]:
    return [
        Control(kind="near_miss", slot=miss.slot, text=miss.text, slots=miss.slots, work=work)
        for miss in misses
    ]


def _single_slots(work: Work, caption: KnownText, misses: Sequence[NearMiss]) -> list[Control]:
    """The wrong slot of each near miss alone, and the right ones, which cost what the caption has asked already."""

    def make(kind: ControlKind, slot: SlotName, value: str) -> Control:
        slots: SlotValues = {slot: value}
        return Control(
            kind=kind,
            slot=slot,
            text=compose_sentence(slots),
            slots=slots,
            work=work,
            known_false=kind == "near_miss",
            only=slot,
        )

    claimed = dict.fromkeys(miss.slot for miss in misses)
    return [
        *(make("near_miss", miss.slot, miss.slots[miss.slot]) for miss in misses),
        *(make("claim", slot, caption.slots[slot]) for slot in claimed),
    ]


def _neighbour_controls(work: Work, text: KnownText, differences: KnownDifferences) -> list[Control]:
    """What is said of the segments before and after, where it is surely something else; whose span it is, is asked."""
    near = [
        KnownText(str(caption.value.get("text") or ""), slots_of(caption))
        for caption in find_neighbours(work.subject)
    ]
    return [
        Control(kind="neighbour", text=other.text, slots=other.slots, work=work, only="span")
        for other in near
        if is_other_task(other, [text], differences)
    ]


def _without_content(work: Work, caption: KnownText) -> list[Control]:
    kinds: tuple[tuple[ControlKind, ChangedFrames], ...] = (
        ("blank", ChangedFrames(work.frames, blank)),
        ("scrambled", ChangedFrames(work.frames, scrambled)),
    )
    return [
        Control(kind=kind, text=caption.text, slots=caption.slots, work=replace(work, frames=frames))
        for kind, frames in kinds
    ]


def _outcome_controls(work: Work, caption: KnownText) -> list[Control]:
    """The caption with the outcome that the source denies, for a judge that is not told what the source says.

    None of a part of an episode: the source records the end of the whole.
    """
    if work.episode.success is None or not work.subject.is_whole_episode:
        return []
    wrong = turn_outcome(caption, NOT_COMPLETED if work.episode.success else COMPLETED)
    return [Control(kind="outcome", text=wrong.text, slots=wrong.slots, work=work, hides_label=True)]


def plan_controls(
    stores: Stores,
    planned_episodes: int | None,
    verbs: Mapping[str, str],
    *,
    maker_id: str = "",
    calibrate: Calibrate = "auto",
    captions: str = "caption",
) -> ControlPlan:
    """A plan for a run.

    The first run over a dataset calibrates the judge on it. One that grades fewer episodes than the dataset has does
    so only where it is asked to; later runs add some controls.

    Args:
        stores: Stores of the workspace.
        planned_episodes: Most episodes of the run; None outside a run, where nothing is controlled.
        verbs: The guide of verbs.
        maker_id: The producer of grades, whose controls count.
        calibrate: "yes" also for a part of a dataset, "no" for no controls at all.
        captions: The annotator of the captions.
    """
    if not planned_episodes or calibrate == "no":
        return ControlPlan()
    done = stores.annotations.count_annotations([maker_id]).get(maker_id, 0) if maker_id else 0
    trust = read_judge_trust(stores.annotations).get(maker_id, {})
    is_per_segment = captions == SEGMENT_CAPTION
    read = read_segment_statements if is_per_segment else read_statements
    sizes, statements = count_outcomes(stores), read(stores, verbs)
    texts = read_texts(stores, statements, verbs)
    kind, per_episode = (
        (SegmentControls, _segments_per_episode(stores)) if is_per_segment else (DatasetControls, 1.0)
    )
    datasets = {}
    for name, ends in sizes.items():
        total = sum(ends.values())
        covers = planned_episodes + done >= total or calibrate == "yes"
        needs = name not in trust or bool(trust[name].get("missing"))
        if not covers and name not in trust:
            continue
        episodes = min(total, planned_episodes) if calibrate == "yes" else total
        datasets[name] = kind(
            episodes=max(1, round(episodes * per_episode)),
            calibrates=covers and needs,
            successes=ends[True],
            failures=ends[False],
            texts=texts.get(name, ()),
            differences=KnownDifferences(group.slots for group in statements.get(name, ())),
        )
    return ControlPlan(datasets=datasets, verbs=verbs)


def _segments_per_episode(stores: Stores) -> float:
    """Captions of segments of one episode: those that there are, else as many as there are segments."""
    segments, episodes = stores.tables.segments, stores.tables.episodes.count()
    captions = segments.count(f"annotator = {quote_literal(SEGMENT_CAPTION)}")
    spans = captions or segments.count(in_condition("annotator", SEGMENTERS))
    return max(1.0, spans / max(1, episodes))


def plan_attack(
    stores: Stores, episodes: Sequence[Episode], verbs: Mapping[str, str], per_kind: int, seed: int
) -> ControlPlan:
    """A plan for true captions of some episodes, all of which get controls.

    Args:
        stores: Stores of the workspace.
        episodes: The episodes.
        verbs: The guide of verbs.
        per_kind: See `AttackControls`.
        seed: Of the controls.
    """
    statements, by_dataset = read_statements(stores, verbs), dict[str, list[Episode]]()
    texts = read_texts(stores, statements, verbs)
    for episode in episodes:
        by_dataset.setdefault(episode.dataset, []).append(episode)
    return ControlPlan(
        datasets={
            name: AttackControls(
                episodes=len(members),
                calibrates=False,
                successes=sum(episode.success is True for episode in members),
                failures=sum(episode.success is False for episode in members),
                texts=texts.get(name, ()),
                differences=KnownDifferences(group.slots for group in statements.get(name, ())),
                per_kind=per_kind,
            )
            for name, members in by_dataset.items()
        },
        verbs=verbs,
        seed=seed,
    )


def _hash_fraction(key: str) -> float:
    """A number in [0, 1) that only the key determines."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest()) / 2**48


def make_control_value(
    graded_caption: GradedText,
    controls: Sequence[Control],
    graded: Sequence[GradeOutcome],
    rubric: Rubric,
    label: str,
    *,
    slots_from: str = "",
) -> dict[str, Json]:
    """The gradings of a caption and of its controls, as `ares.rubric.trust.measure_judge_trust` reads them.

    Args:
        graded_caption: The caption, graded.
        controls: Its controls.
        graded: What each came to.
        rubric: The rubric.
        label: What has to stand beside all numbers of the judge, or "".
        slots_from: "tables" where word tables have filled the slots of the caption: such controls prove nothing.
    """
    rows: list[Json] = [
        {
            "kind": "own",
            "grade": graded_caption.value["grade"],
            "gates": graded_caption.value[VERDICTS_COLUMN],
        }
    ]
    for control, result in zip(controls, graded, strict=True):
        claim = control.slots.get("outcome", "") if control.kind == "outcome" else ""
        rows.append(
            {
                "kind": control.kind,
                **({"slot": control.slot} if control.slot else {}),
                **({"claim": claim} if claim in OUTCOMES else {}),
                "text": control.text,
                "known_false": control.known_false,
                **_control_result(result),
            }
        )
    return {
        "gradings": rows,
        "gates": [
            {"gate": criterion.id, "slot": criterion.slot or ""}
            for criterion in rubric.criteria
            if criterion.category in GATES
        ],
        **({"label": label} if label else {}),
        **({"slots": slots_from} if slots_from else {}),
    }


def _control_result(result: GradeOutcome) -> dict[str, Json]:
    if isinstance(result, GradedText):
        verdicts: dict[str, Json] = {ruling.criterion: ruling.verdict.value for ruling in result.rulings}
        return {
            "grade": result.value["grade"],
            "gates": result.value[VERDICTS_COLUMN],
            "verdicts": verdicts,
            "calls": result.judgement.cost.calls,
        }
    error = result.error if isinstance(result, PaidFailure) else result
    return {"grade": "error", "reason": str(error)}
