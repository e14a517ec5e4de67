"""Which judges the options of grading name, and how several vote on each criterion as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from pydantic import Field

from annotators.base import CameraSeconds, PaidFailure, Preflight, Subject
from annotators.caption import SEGMENT_CAPTION, CaptionedKind, CaptionLayout
from annotators.grade.additions import WordReader
from annotators.grade.judge import GradeCase, Judge, JudgeFrames, Judgement
from annotators.grade.questions import ClaimedPair
from annotators.grade.rates import CallKind, CallRates, CallTotals
from annotators.models import (
    UNKNOWN_UNTIL_LOADED,
    LocalModelOptions,
    compare_models,
    estimate_worker_resources,
    model_family,
)
from ares.annotation import Cost, Producer, short_hash
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.rubric import Ruling, Verdict, read_verbs

if TYPE_CHECKING:
    from annotators.base import Options
    from ares.jobs import WorkerNeeds
    from ares.rubric import Rubric
    from ares.store import Stores


_DECIDED = (Verdict.MET, Verdict.UNMET)


class PanelJudge:
    """A panel of judges; fills the protocol `annotators.grade.judge.Judge`.

    Args:
        members: The judges, two or more, in any order.
        families_file: The user's table of model families, or "".

    Raises:
        RequestError: There are fewer than two judges, or two of them have one language model.
    """

    def __init__(self, members: Sequence[Judge], families_file: str) -> None:
        self.members = sorted(members, key=lambda judge: judge.name)
        _check_families(self.members, families_file)
        self.name = " + ".join(judge.name for judge in self.members)
        self.family = " + ".join(judge.family for judge in self.members)
        self.is_free = all(judge.is_free for judge in self.members)
        self.reads_slots = any(judge.reads_slots for judge in self.members)
        self.text_vlm = next((judge.text_vlm for judge in self.members if judge.text_vlm), None)
        self.prompt_hash = short_hash([judge.prompt_hash for judge in self.members])
        self.batch_size = min(judge.batch_size for judge in self.members)
        self.workers = min(judge.workers for judge in self.members)
        self.observation_producers: Sequence[Producer] = [
            producer for judge in self.members for producer in judge.observation_producers
        ]

    @property
    def settings(self) -> Mapping[str, Json]:
        """Name, family and settings of each judge."""
        return {
            "panel": [
                {"judge": judge.name, "family": judge.family, **judge.settings} for judge in self.members
            ]
        }

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """What any of the judges needs."""
        seconds: dict[str, set[float]] = {}
        for judge in self.members:
            for camera, camera_seconds in judge.select_frames(subject).items():
                seconds.setdefault(camera, set()).update(camera_seconds)
        return {camera: sorted(all_seconds) for camera, all_seconds in seconds.items()}

    def expect_calls(self, subject: Subject) -> CallRates:
        """The calls of all judges."""
        total: dict[CallKind, CallTotals] = {}
        for judge in self.members:
            for kind, calls in judge.expect_calls(subject).items():
                total[kind] = total.get(kind, CallTotals()) + calls
        return total

    def count_open_observations(self, subject: Subject) -> int:
        """Those of all judges."""
        return sum(judge.count_open_observations(subject) for judge in self.members)

    def count_comparisons(self, batches: Sequence[Sequence[Sequence[ClaimedPair]]], dataset: str) -> float:
        """Those of all judges."""
        return sum(judge.count_comparisons(batches, dataset) for judge in self.members)

    def preflight(self) -> Preflight:
        """Check that every judge answers."""
        checked = [judge.preflight() for judge in self.members]
        warnings = [warning for preflight in checked for warning in preflight.warnings]
        return Preflight(cost=sum((preflight.cost for preflight in checked), Cost()), warnings=warnings)

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """As many cases as every judge takes."""
        limits = [judge.call_limit for judge in self.members if judge.call_limit]
        return (lambda: min(limit() for limit in limits)) if limits else None

    def judge(self, cases: Sequence[GradeCase]) -> Sequence[Judgement | PaidFailure | AresError]:
        """The votes of all judges on each case; a judge that cannot be called fails the case, which is retried."""
        by_judge = [judge.judge(cases) for judge in self.members]
        return [
            self._vote(case, outcomes)
            for case, outcomes in zip(cases, zip(*by_judge, strict=True), strict=True)
        ]

    def _vote(
        self, case: GradeCase, outcomes: Sequence[Judgement | PaidFailure | AresError]
    ) -> Judgement | PaidFailure | AresError:
        judgements = [outcome for outcome in outcomes if isinstance(outcome, Judgement)]
        paid = sum((outcome.paid for outcome in judgements), Cost())
        if len(judgements) < len(outcomes):
            return _first_failure(outcomes, paid)
        votes = [{ruling.criterion: ruling for ruling in outcome.rulings} for outcome in judgements]
        return Judgement(
            rulings=[
                combine_votes([judge_votes[criterion.id] for judge_votes in votes], self.name)
                for criterion in case.criteria
            ],
            cost=sum((item.cost for item in judgements), Cost()),
            paid=paid,
            calls=_sum_calls(judgements),
            observations=[annotation for item in judgements for annotation in item.observations],
            observation_ids=[key for item in judgements for key in item.observation_ids],
        )


def _sum_calls(judgements: Sequence[Judgement]) -> dict[CallKind, Cost]:
    total: dict[CallKind, Cost] = {}
    for judgement in judgements:
        for kind, cost in judgement.calls.items():
            total[kind] = total.get(kind, Cost()) + cost
    return total


def panel_members(judge: Judge) -> Sequence[Judge]:
    """The judges of a panel; a judge that is no panel stands alone."""
    return judge.members if isinstance(judge, PanelJudge) else (judge,)


def combine_votes(votes: Sequence[Ruling], panel: str) -> Ruling:
    """The ruling of a panel on one criterion, with the votes that it follows from.

    MET or UNMET needs a majority of the judges that decided, and more than half of the panel must have decided. It is
    ERROR where every judge failed, and UNSURE otherwise.

    Args:
        votes: One ruling per judge.
        panel: Name of the panel.
    """
    verdict = _majority_verdict([vote.verdict for vote in votes])
    agreeing = [vote for vote in votes if vote.verdict is verdict]
    counts = Counter(vote.verdict for vote in votes)
    return Ruling(
        criterion=votes[0].criterion,
        verdict=verdict,
        source="panel",
        slot=votes[0].slot,
        claimed=votes[0].claimed,
        observed=next((vote.observed for vote in agreeing if vote.observed), ""),
        evidence=tuple(sorted({second for vote in agreeing for second in vote.evidence})),
        judge=panel,
        reason="votes: " + ", ".join(f"{counts[name]} {name.value}" for name in Verdict if counts[name]),
        margin=min((vote.margin for vote in agreeing), default=0.0),
        votes=tuple(votes),
    )


def _majority_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    decided = [verdict for verdict in verdicts if verdict in _DECIDED]
    if 2 * len(decided) > len(verdicts):
        for verdict in _DECIDED:
            if 2 * decided.count(verdict) > len(decided):
                return verdict
    return Verdict.ERROR if set(verdicts) == {Verdict.ERROR} else Verdict.UNSURE


def split_criteria(rulings: Sequence[Ruling]) -> list[str]:
    """The criteria on which the judges of a panel do not say the same."""
    return [ruling.criterion for ruling in rulings if len({vote.verdict for vote in ruling.votes}) > 1]


def _first_failure(
    outcomes: Sequence[Judgement | PaidFailure | AresError], paid: Cost
) -> PaidFailure | AresError:
    """The first failure, with what everything has cost."""
    failures = [item for item in outcomes if isinstance(item, PaidFailure | AresError)]
    paid += sum((item.cost for item in failures if isinstance(item, PaidFailure)), Cost())
    first = failures[0]
    error = first.error if isinstance(first, PaidFailure) else first
    return PaidFailure(error, paid) if paid.calls else error


def _check_families(members: Sequence[Judge], families_file: str) -> None:
    if len(members) < 2:
        raise RequestError("a panel needs two judges or more", f"got {len(members)}")
    for number, judge in enumerate(members):
        for other in members[:number]:
            kinship = compare_models([judge.name], [other.name], families_file)
            if judge.family == other.family or kinship.closeness == "same":
                raise RequestError(
                    "the judges of a panel must be of different model families",
                    f"{other.name!r} and {judge.name!r} share their errors; give another judge for one of them",
                )


class ModelOrigin(Protocol):
    """A model by what is known of its origin."""

    @property
    def name(self) -> str:
        """Portable name."""

    @property
    def family(self) -> str:
        """Name of its model family."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """Settings, with "served_from" where a server says what it has loaded."""


def model_family_error(judge: ModelOrigin, captioner: Producer, families_file: str) -> RequestError | None:
    """Why a judge, or one of a panel, may not rule on captions of a producer, or None.

    Args:
        judge: The judge, or the panel.
        captioner: The producer of the captions.
        families_file: The user's table of model families, or "".

    Raises:
        RequestError: The file cannot be read.
    """
    errors = (_member_family_error(member, captioner, families_file) for member in _judge_members(judge))
    return next((error for error in errors if error), None)


def _judge_members(judge: ModelOrigin) -> Sequence[ModelOrigin]:
    return judge.members if isinstance(judge, PanelJudge) else [judge]


def _member_family_error(judge: ModelOrigin, captioner: Producer, families_file: str) -> RequestError | None:
    captioner_family = str(captioner.settings.get("family") or model_family(captioner.model))
    if judge.name == captioner.model or judge.family == captioner_family:
        return RequestError(
            "the judge must not be of the captioner's model family",
            f"captions by {captioner.model!r}, judge {judge.name!r}; give a judge of another family (ARES_JUDGE_MODEL)",
        )
    kinship = compare_models(_judge_names(judge), _captioner_names(captioner), families_file)
    if kinship.closeness != "same":
        return None
    return RequestError(
        "the judge must not have the captioner's language model",
        f"captions by {captioner.model!r}, judge {judge.name!r}: both were trained from {kinship.language_model}; give "
        "another judge (ARES_JUDGE_MODEL), or correct the table (ARES_MODEL_FAMILIES)",
    )


def model_family_warnings(
    judge: ModelOrigin, captioners: Iterable[Producer], families_file: str
) -> list[str]:
    """A warning for each captioner whose language model is another release of the judge's.

    Arguments and errors are those of `model_family_error`.
    """
    related = {
        (member.name, captioner.model): compare_models(
            _judge_names(member), _captioner_names(captioner), families_file
        )
        for captioner in captioners
        for member in _judge_members(judge)
    }
    return [
        f"judge {name!r} and captioner {model!r} have language models of one family ({kinship.language_model}): "
        "they share errors; a judge of another family finds more of them (ARES_JUDGE_MODEL)"
        for (name, model), kinship in sorted(related.items())
        if kinship.closeness == "lineage"
    ]


def _judge_names(judge: ModelOrigin) -> list[str]:
    """The name of the judge, and the model that its server loaded under that name."""
    return [judge.name, *_served_from(judge.settings.get("served_from"))]


def _captioner_names(captioner: Producer) -> list[str]:
    return [captioner.model, *_served_from(captioner.settings.get("served_from"))]


def _served_from(root: object) -> list[str]:
    return [str(root)] if root else []


_CLIP_PREFIX = "clip:"


class GradeOptions(LocalModelOptions):
    """Options of grading."""

    # The producer knows judges and models of texts by their names, and verbs by the hash of prompts.
    not_in_producer: ClassVar[frozenset[str]] = LocalModelOptions.not_in_producer | {
        "judge",
        "text_model",
        "verbs",
        "calibrate",
        "per",
    }

    per: CaptionedKind = Field(
        default="episode",
        description="whose captions are graded: episode, or segment (by the rubric `segment`, if no other is given)",
    )
    rubric: str = Field(default="caption", description="rubric: a shipped name or a YAML file")
    candidates: str = Field(
        default="",
        description="text file, one phrase a line: what a clip judge, which is the demo's, distinguishes",
    )
    text_model: str = Field(
        default="judge",
        description="what compares two words and reads the slots of sentences: judge (the judge itself), or another "
        "model (hf:... or openai:...)",
    )
    verbs: str = Field(
        default="",
        description="your own guide of verbs, a YAML file of verb: meaning (default: the shipped one)",
    )
    layout: CaptionLayout = Field(
        default="auto",
        description="frames that a judge gets, other than a clip judge: auto (as a captioner gets them: one in two "
        "seconds, all good cameras, at most 60), sheets or tiles",
    )
    judge: tuple[str, ...] = Field(
        default=(),
        description="judge; given several times, a panel that votes (default: --model, or ARES_JUDGE_MODEL)",
    )
    calibrate: Literal["auto", "yes", "no"] = Field(
        default="auto",
        description="texts of known truth that measure the judge, bought once a dataset: auto (when a run covers the "
        "dataset), yes (also for a part of it) or no",
    )
    camera: str = Field(
        default="",
        description="camera that the judge gets (default: every good one in the layouts auto and sheets and of a clip "
        "judge, else the best view)",
    )


def list_judge_specs(options: Options, grade_options: GradeOptions) -> Sequence[str]:
    """The specs of the judges of a run. Raises RequestError where --judge and --model are given."""
    if grade_options.judge and options.model:
        raise RequestError("--judge and --model both name the judge", "give one of them")
    return grade_options.judge or [options.model or options.settings.judge_model]


def load_judges(
    specs: Sequence[str],
    options: Options,
    grade_options: GradeOptions,
    stores: Stores,
    rubric: Rubric,
    known_words: WordReader,
) -> Judge:
    """The judge of a spec, or the panel of several; they read the common words of a dataset once."""
    judges = [_load_judge(spec, options, grade_options, stores, rubric, known_words) for spec in specs]
    return judges[0] if len(judges) == 1 else PanelJudge(judges, options.settings.model_families)


def sum_judge_resources(specs: Sequence[str]) -> WorkerNeeds:
    """What a worker with all judges takes of a machine."""
    needs = [estimate_worker_resources("judge", spec) for spec in specs]
    memory = sum(need.memory_bytes for need in needs)
    return replace(needs[0], memory_bytes=memory, gpus=max(need.gpus for need in needs))


def _load_judge(
    spec: str,
    options: Options,
    grade_options: GradeOptions,
    stores: Stores,
    rubric: Rubric,
    known_words: WordReader,
) -> Judge:
    if spec.startswith(_CLIP_PREFIX):
        from annotators.grade.clip_judge import ClipJudge, check_clip_judge_rubric, read_candidate_phrases
        from annotators.models import load_encoder_for

        check_clip_judge_rubric(rubric)
        candidates = read_candidate_phrases(grade_options.candidates)
        return ClipJudge(
            load_encoder_for(spec.removeprefix(_CLIP_PREFIX), options, stores),
            candidates,
            grade_options.camera,
        )
    return _load_model_judge(spec, options, grade_options, stores, rubric, known_words)


def _load_model_judge(
    spec: str,
    options: Options,
    grade_options: GradeOptions,
    stores: Stores,
    rubric: Rubric,
    known_words: WordReader,
) -> Judge:
    """A vision-language model as judge: it gets no caption."""
    from annotators.grade.observing_judge import ObservingJudge
    from annotators.grade.pair_answers import PairAnswers, TextModel
    from annotators.grade.segment_observer import MAX_NEW_TOKENS, SegmentObserver
    from annotators.grade.slot_values import DatasetValues
    from annotators.models import load_vlm

    frames, verbs = JudgeFrames(grade_options.layout, grade_options.camera), read_verbs(grade_options.verbs)
    vlm = load_vlm(spec, options, MAX_NEW_TOKENS, stores)
    observer = SegmentObserver(vlm, frames, stores, verbs)
    is_judge = grade_options.text_model == "judge"
    texts = TextModel(
        vlm if is_judge else load_vlm(_text_model_spec(grade_options), options, MAX_NEW_TOKENS, stores)
    )
    captions = SEGMENT_CAPTION if grade_options.per == "segment" else "caption"
    pairs = PairAnswers(texts, stores.annotations, known_words)
    questions = sum(criterion.claim and criterion.slot is None for criterion in rubric.criteria)
    rivals = DatasetValues(stores, verbs, captions).choose_rival
    return ObservingJudge(vlm, observer, frames, texts, pairs, rivals, questions)


def _text_model_spec(grade_options: GradeOptions) -> str:
    if not grade_options.text_model.startswith(("hf:", "openai:", "stub:")):
        raise RequestError(
            "no such model of texts",
            f"{grade_options.text_model!r}; give judge, hf:FOLDER or openai:MODEL@http://HOST:PORT/v1",
        )
    return grade_options.text_model


def warn_of_missing_schema(judge: Judge) -> list[str]:
    """What a person should know of judges whose back end holds no form."""
    return [
        f"{member.name} holds no JSON schema: it is asked for JSON in words, and a reply of another form is a failure"
        for member in panel_members(judge)
        if member.settings.get("has_schema") is False and UNKNOWN_UNTIL_LOADED not in member.name
    ]
