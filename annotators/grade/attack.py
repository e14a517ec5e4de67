"""Attacks a judge: ten batteries of false texts, made of true captions; no grade is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, cast

from ares.annotation import Annotation, Cost
from ares.errors import RequestError
from ares.rubric import CONTROL_KINDS, normalize_caption
from ares.statistics import wilson_interval
from ares.store import batched
from ares_annotators.base import (
    Subject,
    find_outcome_cost,
    find_outcome_error,
    make_annotation_subject,
    read_work,
)
from ares_annotators.grade.annotator import GradeAnnotator
from ares_annotators.grade.battery import ControlMaker, SeenCaption
from ares_annotators.grade.caption_grading import CaptionResult
from ares_annotators.grade.control_grading import grade_controls
from ares_annotators.grade.grading import Grader

if TYPE_CHECKING:
    from ares.store import Stores
    from ares_annotators.base import Options


# Batteries of an attack, the most episodes that it takes, and the seed of its sample and of its texts.
_SCALE, _EPISODES, _SEED = 10, 60, 0
# No annotation has this producer: the texts are nobody's captions.
_NO_PRODUCER = "attack"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedCount:
    """How many of some texts a judge accepts.

    Attributes:
        accepted: Accepted ones.
        total: All.
        bounds: The 95 % interval of their share after Wilson.
    """

    accepted: int
    total: int
    bounds: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackedDataset:
    """What an attack has shown of a judge on one dataset.

    Attributes:
        kinds: False texts by kind.
        true_captions: True captions.
    """

    kinds: Mapping[str, AcceptedCount]
    true_captions: AcceptedCount

    @property
    def is_broken(self) -> bool:
        """Whether half of a kind is accepted, or no true caption: then the refusal of false ones says nothing."""
        is_fooled = any(2 * counts.accepted >= counts.total for counts in self.kinds.values())
        return is_fooled or not self.true_captions.accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRun:
    """What an attack has shown.

    Attributes:
        judge: Name of the judge.
        cost: What was paid.
        warnings: What a person should know.
        datasets: What it shows, by dataset.
        broken: Datasets on which the judge accepts half of a kind, or nothing.
        failed: Episodes whose caption could not be graded.
    """

    judge: str
    cost: Cost
    warnings: Sequence[str]
    datasets: Mapping[str, AttackedDataset]
    broken: Sequence[str]
    failed: int


def sample_true_captions(stores: Stores, where: str) -> list[Subject]:
    """True captions of a random sample of episodes: their instructions, with the outcome.

    Raises:
        RequestError: The filter is wrong, or no episode has an instruction.
    """
    rows = sorted(_read_instructions(stores, where), key=lambda row: row[0])
    Random(_SEED).shuffle(rows)
    # Texts are read as captions until enough have one: of a million that would take half a minute.
    captions = ((key, _true_caption(text, success)) for key, text, success in rows)
    drawn = list(islice(((key, caption) for key, caption in captions if caption), _EPISODES))
    if not drawn:
        raise RequestError("no episode has a true caption", f"instruction is empty where {where or 'true'}")
    return [_make_subject(stores, key, text) for key, text in drawn]


def _read_instructions(stores: Stores, where: str) -> Iterator[tuple[str, str, bool | None]]:
    """Id, text and outcome of each episode that has a text."""
    for batch in stores.tables.episodes.scan(["episode_id", "instruction", "success"], where):
        for row in batch.to_pylist():
            if text := (row["instruction"] or "").strip():
                yield row["episode_id"], text, row["success"]


def _true_caption(text: str, success: bool | None) -> str:
    """What an instruction says as a caption: that of a failure has failed."""
    phrase = normalize_caption(text).phrase
    return f"fail to {phrase}" if phrase and success is False else phrase


def _make_subject(stores: Stores, episode_id: str, text: str) -> Subject:
    """A caption of a whole episode that nobody has stored."""
    episode = stores.tables.episodes.get_episode(episode_id)
    annotation = Annotation(
        episode_id=episode_id,
        name="caption",
        value={"text": text, "caption": text},
        maker_id=_NO_PRODUCER,
        subject=episode_id,
        start_seconds=0.0,
        stop_seconds=episode.duration_seconds,
        created="1970-01-01T00:00:00+00:00",
    )
    return make_annotation_subject(episode, annotation)


def run_attack(
    stores: Stores, options: Options, where: str = "", budget_usd: float | None = None
) -> AttackRun:
    """Grade true captions and ten batteries. Replies are kept and money is booked as in a run; no grade is stored.

    Args:
        stores: Stores of the workspace.
        options: The judge, and values of the options of `grade`.
        where: SQL filter over the episode columns.
        budget_usd: Hard stop, or None.

    Raises:
        RequestError: No episode has a true caption, or an option is wrong.
        ModelError: The judge cannot be loaded or does not answer.
    """
    options = options.with_budget(budget_usd)
    subjects = sample_true_captions(stores, where)
    annotator = GradeAnnotator(options, stores)
    checked = annotator.preflight([])
    works = [read_work(stores, subject, [annotator.select_frames(subject)]) for subject in subjects]
    graded: list[CaptionResult] = []
    for chunk in batched(works, annotator.batch_size):
        graded += annotator.captions.grade([replace(work, is_last_reader=True) for work in chunk])
    errors = [error for item in graded if (error := find_outcome_error(item.result))]
    if len(errors) == len(graded):
        raise errors[0]
    cost = sum((find_outcome_cost(item.result) for item in graded), checked.cost)
    datasets: dict[str, AttackedDataset] = {}
    for name in sorted({subject.episode.dataset for subject in subjects}):
        seen = [item.seen for item in graded if item.seen and item.seen.dataset == name]
        datasets[name], paid = _attack_dataset(annotator.grader, seen)
        cost += paid
    return AttackRun(
        judge=annotator.producer.model,
        cost=cost,
        warnings=checked.warnings,
        datasets=datasets,
        broken=[name for name, shown in datasets.items() if shown.is_broken],
        failed=len(errors),
    )


def _attack_dataset(grader: Grader, seen: Sequence[SeenCaption]) -> tuple[AttackedDataset, Cost]:
    """Put ten batteries to a judge; what they show, and what they have cost."""
    maker = ControlMaker(seen, grader.verbs, Random(f"attack {_SEED}"))
    annotations, cost = grade_controls(grader, maker.draw_battery(_SCALE) if seen else [])
    rows = [
        row
        for item in annotations
        for row in cast("list[dict[str, str]]", item.value["gradings"])
        if row["grade"] != "error"
    ]
    grades = {kind: [row["grade"] for row in rows if row["kind"] == kind] for kind in CONTROL_KINDS}
    attacked = AttackedDataset(
        kinds={
            kind: _count_accepted(own.count("acceptable"), len(own)) for kind, own in grades.items() if own
        },
        true_captions=_count_accepted(sum(caption.is_accepted for caption in seen), len(seen)),
    )
    return attacked, cost


def _count_accepted(accepted: int, total: int) -> AcceptedCount:
    low, high = wilson_interval(accepted, total)
    return AcceptedCount(accepted=accepted, total=total, bounds=(round(low, 4), round(high, 4)))
