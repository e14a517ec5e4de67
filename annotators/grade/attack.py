"""Attacks a judge: ten batteries of false texts, made of true captions; no grade is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

from annotators.base import Budget, Frames, PaidFailure, Subject, Work, make_annotation_subject
from annotators.grade.annotator import CaptionResult, GradeAnnotator
from annotators.grade.battery import ControlMaker
from ares.annotation import Annotation, Cost
from ares.clock import needs_timestamps
from ares.console import count_of
from ares.errors import AresError, RequestError
from ares.registry import suggest_column
from ares.rubric import BATTERY, CONTROL_KINDS, split_outcome
from ares.statistics import share_lower_bound, share_upper_bound
from ares.store import batched

if TYPE_CHECKING:
    from annotators.base import Options
    from ares.episode import Episode, Json
    from ares.store import Stores


_INSTRUCTION = "instruction"
# Batteries of an attack.
_SCALE = 10
# No annotation has this producer: the texts are nobody's captions.
_NO_PRODUCER = "attack"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRequest:
    """What an attack is to do.

    Attributes:
        truth: Text column with true captions, or "" for the instruction with the outcome of `success`.
        where: SQL filter over the episode columns.
        episodes: Most episodes.
        seed: Of the sample and of the texts.
        budget_usd: Hard stop, or None.
    """

    truth: str = ""
    where: str = ""
    episodes: int
    seed: int
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackQuote:
    """What an attack would do and cost, as expected: replies that were kept cost nothing.

    Attributes:
        judge: Name of the judge.
        episodes: Number of episodes.
        controls: Expected number of controls.
        cost: Expected cost.
        warnings: What a person should know.
    """

    judge: str
    episodes: int
    controls: int
    cost: Cost
    warnings: Sequence[str]

    def to_json(self) -> dict[str, Json]:
        """The quote as a document."""
        return {
            "judge": self.judge,
            "episodes": self.episodes,
            "controls": self.controls,
            **asdict(self.cost),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackedDataset:
    """What an attack has shown of a judge on one dataset.

    Attributes:
        kinds: Accepted false texts and all, by kind.
        accepted: True captions that were accepted.
        captions: True captions.
        passed: Kind, episode and text of each false text that was accepted.
    """

    kinds: Mapping[str, tuple[int, int]]
    accepted: int
    captions: int
    passed: Sequence[Mapping[str, str]]

    @property
    def is_broken(self) -> bool:
        """Whether half of a kind is accepted, or no true caption: then the refusal of false ones says nothing."""
        return not self.accepted or any(2 * accepted >= total for accepted, total in self.kinds.values())

    def to_json(self) -> dict[str, Json]:
        """The counts with exact two-sided 90 % intervals (Clopper and Pearson), and what was accepted."""
        return {
            "kinds": {kind: _count_to_json(counts) for kind, counts in self.kinds.items()},
            "true_captions": _count_to_json((self.accepted, self.captions)),
            "passed": [dict(row) for row in self.passed],
        }


def _count_to_json(counts: tuple[int, int]) -> dict[str, Json]:
    accepted, total = counts
    bounds = share_lower_bound(accepted, total), share_upper_bound(accepted, total)
    return {"accepted": accepted, "total": total, "bounds": [round(bound, 4) for bound in bounds]}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRun:
    """What an attack has shown.

    Attributes:
        judge: Name of the judge.
        grader: Id of the producer whose grades these texts would have got.
        seed: Seed of the sample and of the texts.
        datasets: What it shows, by dataset.
        failed: Episodes whose caption could not be graded.
        cost: What was paid.
        warnings: What a person should know.
    """

    judge: str
    grader: str
    seed: int
    datasets: Mapping[str, AttackedDataset]
    failed: int
    cost: Cost
    warnings: Sequence[str]

    @property
    def broken(self) -> list[str]:
        """Datasets on which the judge accepts half of a kind, or nothing."""
        return [name for name, shown in self.datasets.items() if shown.is_broken]

    def to_json(self) -> dict[str, Json]:
        """The run as a document."""
        return {
            "judge": self.judge,
            "grader": self.grader,
            "seed": self.seed,
            "datasets": {name: shown.to_json() for name, shown in self.datasets.items()},
            "broken": list(self.broken),
            "failed": self.failed,
            "cost": asdict(self.cost),
            "warnings": list(self.warnings),
        }


def sample_true_captions(stores: Stores, request: AttackRequest) -> tuple[list[Subject], list[str]]:
    """True captions of a random sample of episodes, and what a person should know of them.

    Raises:
        RequestError: The column does not exist or is no text, the filter is wrong, or no episode has a caption.
    """
    column = request.truth or _INSTRUCTION
    columns = stores.tables.episodes.columns()
    if columns.get(column) != "string":
        raise RequestError(
            f"no text column {column!r}",
            f"{suggest_column(column, columns)}give a text column with true captions",
        )
    ranked = sorted(_read_texts(stores, request), key=lambda row: _seeded_rank(row[0], request.seed))
    # Texts are read as captions until enough have one: of a million that would take half a minute.
    captions = ((key, _true_caption(text, success, request)) for key, text, success in ranked)
    drawn = list(islice(((key, caption) for key, caption in captions if caption), request.episodes))
    if not drawn:
        raise RequestError(
            "no episode has a true caption", f"column {column!r} is empty where {request.where or 'true'}"
        )
    subjects = [_make_subject(stores.tables.episodes.get_episode(key), text) for key, text in drawn]
    return subjects, [] if request.truth else _truth_warnings([subject.episode for subject in subjects])


def _read_texts(stores: Stores, request: AttackRequest) -> Iterator[tuple[str, str, bool | None]]:
    """Id, text and outcome of each episode that has a text."""
    column = request.truth or _INSTRUCTION
    for batch in stores.tables.episodes.scan(["episode_id", column, "success"], request.where):
        for row in batch.to_pylist():
            if text := (row[column] or "").strip():
                yield row["episode_id"], text, row["success"]


def _true_caption(text: str, success: bool | None, request: AttackRequest) -> str:
    """The text, or as a caption what an instruction says: that of a failure has failed."""
    if request.truth:
        return text
    phrase = split_outcome(text)[1]
    return f"fail to {phrase}" if phrase and success is False else phrase


def _seeded_rank(episode_id: str, seed: int) -> str:
    return hashlib.blake2b(f"{seed} {episode_id}".encode(), digest_size=8).hexdigest()


def _truth_warnings(episodes: Sequence[Episode]) -> list[str]:
    warnings = [
        "the truth is the instruction and the outcome of each episode: a demonstration may deviate from it; give "
        "--truth COLUMN where people have checked captions"
    ]
    unknown = sum(episode.success is None for episode in episodes)
    if unknown:
        warnings.append(
            f"the outcome of {count_of(unknown, 'episode')} is not recorded: their instructions may not be fulfilled, "
            "and no outcome of theirs is turned"
        )
    return warnings


def _make_subject(episode: Episode, text: str) -> Subject:
    """A caption of a whole episode that nobody has stored."""
    annotation = Annotation(
        episode_id=episode.episode_id,
        name="caption",
        value={"text": text, "caption": text},
        maker_id=_NO_PRODUCER,
        subject=episode.episode_id,
        start_seconds=0.0,
        stop_seconds=episode.duration_seconds,
        created="1970-01-01T00:00:00+00:00",
    )
    return make_annotation_subject(episode, annotation)


def quote_attack(stores: Stores, options: Options, request: AttackRequest) -> AttackQuote:
    """What an attack would do and cost; no model is loaded and no server asked. Raises as `run_attack`."""
    _check_budget(options, request)
    subjects, warnings = sample_true_captions(stores, request)
    annotator = GradeAnnotator(replace(options, load_models=False), stores)
    datasets = len({subject.episode.dataset for subject in subjects})
    controls = datasets * _SCALE * sum(BATTERY.values())
    # A control shares the observation of its caption, and takes a call about a value and one about the frames.
    own = annotator.estimate(subjects[0]).scaled(len(subjects))
    cost = own.scaled((own.calls + 2 * controls) / max(1, own.calls))
    return AttackQuote(
        judge=annotator.producer.model,
        episodes=len(subjects),
        controls=controls,
        cost=cost,
        warnings=warnings,
    )


def run_attack(
    stores: Stores, options: Options, request: AttackRequest, advance: Callable[[int, int], None]
) -> AttackRun:
    """Grade true captions and ten batteries. Replies are kept and money is booked as in a run; no grade is stored.

    Args:
        stores: Stores of the workspace.
        options: The judge, and values of the options of `grade`.
        request: What to do.
        advance: Called after each batch of texts with the number that is done and that of all.

    Raises:
        RequestError: No episode has a true caption, or an option is wrong.
        ModelError: The judge cannot be loaded or does not answer.
    """
    _check_budget(options, request)
    subjects, warnings = sample_true_captions(stores, request)
    annotator = GradeAnnotator(replace(options, budget=Budget(request.budget_usd)), stores)
    checked = annotator.preflight([])
    works = [_read_work(stores, subject, annotator) for subject in subjects]
    graded = []
    for chunk in batched(works, annotator.batch_size):
        graded += annotator.grade_captions(chunk)
        advance(len(graded), len(works))
    errors = [error for item in graded if (error := _error_of(item))]
    if len(errors) == len(graded):
        raise errors[0]
    cost, datasets = sum((item.paid for item in graded), checked.cost), dict[str, AttackedDataset]()
    for name in sorted({subject.episode.dataset for subject in subjects}):
        members = [item for item in graded if item.dataset == name]
        datasets[name], paid = _attack_dataset(annotator, members, request.seed)
        cost += paid
    return AttackRun(
        judge=annotator.producer.model,
        grader=annotator.producer.maker_id,
        seed=request.seed,
        datasets=datasets,
        failed=len(errors),
        cost=cost,
        warnings=[*warnings, *annotator.warnings, *checked.warnings],
    )


def _attack_dataset(
    annotator: GradeAnnotator, graded: Sequence[CaptionResult], seed: int
) -> tuple[AttackedDataset, Cost]:
    """Put ten batteries to a judge; what they show, and what they have cost."""
    seen = [item.seen for item in graded if item.seen]
    maker = ControlMaker(seen, [], annotator.verbs, Random(f"attack {seed}"))
    controls = maker.draw_battery(_SCALE) if seen else []
    annotations, cost = annotator.try_controls(controls)
    rows = [(item.episode_id, row) for item in annotations for row in _read_rows(item)]
    counts: dict[str, tuple[int, int]] = {}
    for _, row in rows:
        accepted, total = counts.get(str(row["kind"]), (0, 0))
        if row["grade"] != "error":
            counts[str(row["kind"])] = (accepted + (row["grade"] == "acceptable"), total + 1)
    attacked = AttackedDataset(
        kinds={kind: counts[kind] for kind in CONTROL_KINDS if kind in counts},
        accepted=sum(caption.is_accepted for caption in seen),
        captions=len(seen),
        passed=[
            {"kind": str(row["kind"]), "text": str(row["text"]), "episode_id": episode_id}
            for episode_id, row in rows
            if row["grade"] == "acceptable"
        ],
    )
    return attacked, cost


def _error_of(graded: CaptionResult) -> AresError | None:
    error = graded.result.error if isinstance(graded.result, PaidFailure) else graded.result
    return error if isinstance(error, AresError) else None


def _check_budget(options: Options, request: AttackRequest) -> None:
    if request.budget_usd is not None and options.settings.price is None:
        raise RequestError("a budget needs a price", "set ARES_PRICE=IN,OUT in US dollars per million tokens")


def _read_work(stores: Stores, subject: Subject, annotator: GradeAnnotator) -> Work:
    """A caption with the frames and signals that a grader needs of its episode; the frames are decoded when read."""
    episode = subject.episode
    trajectory = dict(stores.tables.trajectories.read([episode.episode_id])).get(episode.episode_id)
    stamps = trajectory.timestamps if trajectory and needs_timestamps(episode) else None
    frames = Frames(episode, [annotator.select_frames(subject)], stamps)
    return Work(subject=subject, frames=frames, trajectory=trajectory, is_last_reader=True)


def _read_rows(control: Annotation) -> Iterator[dict[str, Json]]:
    rows = control.value["gradings"]
    assert isinstance(rows, list)
    yield from (row for row in rows if isinstance(row, dict))
