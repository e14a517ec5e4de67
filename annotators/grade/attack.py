"""Attacks a judge: controls of true captions in large numbers, graded as in every run, and nothing of it stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from annotators.base import (
    Budget,
    Frames,
    PaidFailure,
    Result,
    Subject,
    Work,
    find_outcome_cost,
    make_annotation_subject,
)
from annotators.grade.annotator import GradeAnnotator
from annotators.grade.control_plan import ControlPlan, plan_attack
from annotators.grade.grade_options import GradeOptions
from ares.annotation import Annotation, Cost
from ares.clock import needs_timestamps
from ares.console import count_of
from ares.errors import AresError, RequestError
from ares.registry import suggest_column
from ares.rubric import CONTROL, JudgeTrust, describe_trust, measure_judge_trust, read_verbs, split_outcome
from ares.statistics import share_lower_bound, share_upper_bound
from ares.store import batched

if TYPE_CHECKING:
    from annotators.base import Options, Outcome
    from ares.episode import Episode, Json
    from ares.store import Stores


_INSTRUCTION = "instruction"
# No annotation has this producer: the texts are nobody's captions.
_NO_PRODUCER = "attack"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRequest:
    """What an attack is to do.

    Attributes:
        truth: Text column with true captions, or "" for the instruction with the outcome of `success`.
        where: SQL filter over the episode columns.
        episodes: Most episodes.
        per_kind: Near misses of each slot, other captions, and notes to the judge of each episode.
        seed: Of the sample and of the texts.
        budget_usd: Hard stop, or None.
    """

    truth: str = ""
    where: str = ""
    episodes: int
    per_kind: int
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
        trust: What the controls say, as those of a run would.
        accepted: True captions that were accepted.
        captions: True captions.
        passed: Kind and slot, episode and text of each control that was graded acceptable.
    """

    trust: JudgeTrust
    accepted: int
    captions: int
    passed: Sequence[Mapping[str, str]]

    @property
    def is_broken(self) -> bool:
        """Whether a limit is broken, or no true caption is accepted: then the refusal of false ones says nothing."""
        return not self.accepted or any(rate.state == "untrusted" for rate in self.trust.kinds)

    @property
    def bounds(self) -> tuple[float, float]:
        """The exact one-sided 95 % bounds of the share of true captions that is accepted."""
        return share_lower_bound(self.accepted, self.captions), share_upper_bound(
            self.accepted, self.captions
        )

    def to_json(self) -> dict[str, Json]:
        """The document of `JudgeTrust`, with the true captions and what has passed."""
        counts: dict[str, Json] = {"accepted": self.accepted, "total": self.captions}
        return {
            **self.trust.to_json(),
            "true_captions": {**counts, "bounds": [round(bound, 4) for bound in self.bounds]},
            "passed": [dict(row) for row in self.passed],
        }

    def describe(self) -> str:
        """The line that a run prints of the judge's controls."""
        return describe_trust(self.trust.to_json())


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
        """Datasets on which the judge breaks a limit."""
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
    subjects, warnings = sample_true_captions(stores, request)
    plan = _plan_controls_of(subjects, stores, options, request)
    annotator = GradeAnnotator(replace(options, load_models=False), stores, plan=plan)
    return AttackQuote(
        judge=annotator.producer.model,
        episodes=len(subjects),
        controls=round(sum(plan.expected(subject) for subject in subjects)),
        cost=annotator.estimate_run(subjects, len(subjects)),
        warnings=warnings,
    )


def run_attack(
    stores: Stores, options: Options, request: AttackRequest, advance: Callable[[int, int], None]
) -> AttackRun:
    """Grade true captions and their controls. Replies are kept and money is booked as in a run; no grade is stored.

    Args:
        stores: Stores of the workspace.
        options: The judge, and values of the options of `grade`.
        request: What to do.
        advance: Called after each batch of episodes with the number that is done and that of all.

    Raises:
        RequestError: No episode has a true caption, or an option is wrong.
        ModelError: The judge cannot be loaded or does not answer.
    """
    subjects, warnings = sample_true_captions(stores, request)
    plan = _plan_controls_of(subjects, stores, options, request)
    options = replace(options, budget=Budget(request.budget_usd))
    annotator = GradeAnnotator(options, stores, plan=plan)
    checked = annotator.preflight([])
    outcomes: list[Outcome] = []
    for chunk in batched(subjects, annotator.batch_size):
        outcomes += annotator.process([_read_work(stores, subject, annotator) for subject in chunk])
        advance(len(outcomes), len(subjects))
    errors = [error for outcome in outcomes if (error := _outcome_error(outcome))]
    if len(errors) == len(outcomes):
        raise errors[0]
    return AttackRun(
        judge=annotator.producer.model,
        grader=annotator.producer.maker_id,
        seed=request.seed,
        datasets=_measure_datasets(subjects, outcomes),
        failed=len(errors),
        cost=sum(map(find_outcome_cost, outcomes), checked.cost),
        warnings=[*warnings, *annotator.warnings, *checked.warnings],
    )


def _plan_controls_of(
    subjects: Sequence[Subject], stores: Stores, options: Options, request: AttackRequest
) -> ControlPlan:
    if request.budget_usd is not None and options.settings.price is None:
        raise RequestError("a budget needs a price", "set ARES_PRICE=IN,OUT in US dollars per million tokens")
    verbs = read_verbs(options.parse(GradeOptions).verbs)
    episodes = [subject.episode for subject in subjects]
    return plan_attack(stores, episodes, verbs, request.per_kind, request.seed)


def _read_work(stores: Stores, subject: Subject, annotator: GradeAnnotator) -> Work:
    """A caption with the frames and signals that a grader needs of its episode."""
    episode = subject.episode
    trajectory = dict(stores.tables.trajectories.read([episode.episode_id])).get(episode.episode_id)
    stamps = trajectory.timestamps if trajectory and needs_timestamps(episode) else None
    frames = Frames(episode, [annotator.select_frames(subject)], stamps)
    frames.decode()
    return Work(subject=subject, frames=frames, trajectory=trajectory)


def _outcome_error(outcome: Outcome) -> AresError | None:
    error = outcome.error if isinstance(outcome, PaidFailure) else outcome
    return error if isinstance(error, AresError) else None


def _measure_datasets(subjects: Sequence[Subject], outcomes: Sequence[Outcome]) -> dict[str, AttackedDataset]:
    """What the controls say, by dataset; captions that could not be graded are left out."""
    controls: dict[str, list[Annotation]] = {}
    unlabelled: set[str] = set()
    for subject, outcome in zip(subjects, outcomes, strict=True):
        dataset = subject.episode.dataset
        if subject.episode.success is None:
            unlabelled.add(dataset)
        members = controls.setdefault(dataset, [])
        if isinstance(outcome, Result):
            members += [annotation for annotation in outcome.annotations if annotation.name == CONTROL]
    return {
        name: _measure_dataset(members, is_labelled=name not in unlabelled)
        for name, members in sorted(controls.items())
    }


def _measure_dataset(controls: Sequence[Annotation], *, is_labelled: bool) -> AttackedDataset:
    rows = [(annotation.episode_id, row) for annotation in controls for row in _read_rows(annotation)]
    caption_rows = [row for _, row in rows if row["kind"] == "own"]
    return AttackedDataset(
        trust=measure_judge_trust(
            [annotation.value for annotation in controls],
            [annotation.episode_id for annotation in controls],
            is_labelled=is_labelled,
        ),
        accepted=sum(row["grade"] == "acceptable" for row in caption_rows),
        captions=len(caption_rows),
        passed=[
            {
                **{name: str(row[name]) for name in ("kind", "slot", "text") if name in row},
                "episode_id": episode_id,
            }
            for episode_id, row in rows
            if row.get("known_false") and row["grade"] == "acceptable"
        ],
    )


def _read_rows(control: Annotation) -> Iterator[dict[str, Json]]:
    rows = control.value["gradings"]
    assert isinstance(rows, list)
    yield from (row for row in rows if isinstance(row, dict))
