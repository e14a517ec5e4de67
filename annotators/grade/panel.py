"""Several judges of different model families as one: they vote on each criterion, and no vote is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from annotators.base import PaidFailure, Preflight, Subject
from annotators.frames import CameraSeconds
from annotators.grade.claim_judge import CheckedRuling, ClaimJudge
from annotators.grade.judge import Case, Judge, Judgement
from annotators.grade.observation import ObservingJudge
from annotators.models import compare_models
from ares.annotation import Cost, Maker, short_hash
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.rubric import Criterion, Ruling, Verdict

_DECIDED = (Verdict.MET, Verdict.UNMET)


class PanelJudge:
    """A panel of judges; fills the protocol `annotators.grade.judge.Judge`.

    Where judges contradict each other on a criterion, the evidence of vision-language models is checked first.

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
        self.prompt_hash = short_hash([judge.prompt_hash for judge in self.members])
        self.batch_size = min(judge.batch_size for judge in self.members)
        self.workers = min(judge.workers for judge in self.members)
        self.observation_makers: Sequence[Maker] = [
            maker for judge in self.members for maker in judge.observation_makers
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
            for camera, own in judge.select_frames(subject).items():
                seconds.setdefault(camera, set()).update(own)
        return {camera: sorted(all_seconds) for camera, all_seconds in seconds.items()}

    def estimate(self, subject: Subject, criteria: Sequence[Criterion]) -> Cost:
        """What all judges cost."""
        return sum((judge.estimate(subject, criteria) for judge in self.members), Cost())

    def estimate_observation(self, subject: Subject) -> Cost:
        """What the observations of all judges cost."""
        return sum((judge.estimate_observation(subject) for judge in self.members), Cost())

    def estimate_changed_frames(self, subject: Subject) -> Cost:
        """The same of other frames."""
        return sum((judge.estimate_changed_frames(subject) for judge in self.members), Cost())

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

    def judge(self, cases: Sequence[Case]) -> Sequence[Judgement | PaidFailure | AresError]:
        """The votes of all judges on each case; a judge that cannot be called fails the case, which is retried."""
        by_judge = [judge.judge(cases) for judge in self.members]
        return [
            self._vote(case, outcomes)
            for case, outcomes in zip(cases, zip(*by_judge, strict=True), strict=True)
        ]

    def _vote(
        self, case: Case, outcomes: Sequence[Judgement | PaidFailure | AresError]
    ) -> Judgement | PaidFailure | AresError:
        judgements = [outcome for outcome in outcomes if isinstance(outcome, Judgement)]
        paid = sum((outcome.paid for outcome in judgements), Cost())
        if len(judgements) < len(outcomes):
            return _failure(outcomes, paid)
        votes = [{ruling.criterion: ruling for ruling in outcome.rulings} for outcome in judgements]
        checks = [
            self._check(judge, case, own, votes) for judge, own in zip(self.members, votes, strict=True)
        ]
        checked = [check for members in checks for check in members if isinstance(check, CheckedRuling)]
        paid += sum((check.paid for check in checked), Cost())
        failures = [check for members in checks for check in members if not isinstance(check, CheckedRuling)]
        if failures:
            return _failure(failures, paid)
        for own, members in zip(votes, checks, strict=True):
            own.update(
                {
                    check.ruling.criterion: check.ruling
                    for check in members
                    if isinstance(check, CheckedRuling)
                }
            )
        return Judgement(
            rulings=[
                combine_votes([own[criterion.id] for own in votes], self.name) for criterion in case.criteria
            ],
            cost=sum((item.cost for item in judgements), sum((check.cost for check in checked), Cost())),
            paid=paid,
            observations=[annotation for item in judgements for annotation in item.observations],
            observation_ids=[key for item in judgements for key in item.observation_ids],
        )

    def _check(
        self, judge: Judge, case: Case, own: Mapping[str, Ruling], votes: Sequence[Mapping[str, Ruling]]
    ) -> Sequence[CheckedRuling | PaidFailure | AresError]:
        """Check the evidence of a judge where another says UNMET; it has checked that of its own refusals itself."""
        if not isinstance(judge, ClaimJudge | ObservingJudge):
            return []
        split = [
            (case, ruling)
            for name, ruling in own.items()
            if ruling.verdict is Verdict.MET and any(other[name].verdict is Verdict.UNMET for other in votes)
        ]
        return judge.check_evidence(split)


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
    verdict = _majority([vote.verdict for vote in votes])
    agreeing = [vote for vote in votes if vote.verdict is verdict]
    counts = Counter(vote.verdict for vote in votes)
    return Ruling(
        criterion=votes[0].criterion,
        verdict=verdict,
        source="panel",
        observed=next((vote.observed for vote in agreeing if vote.observed), ""),
        evidence=tuple(sorted({second for vote in agreeing for second in vote.evidence})),
        judge=panel,
        reason="votes: " + ", ".join(f"{counts[name]} {name.value}" for name in Verdict if counts[name]),
        votes=tuple(votes),
    )


def _majority(verdicts: Sequence[Verdict]) -> Verdict:
    decided = [verdict for verdict in verdicts if verdict in _DECIDED]
    if 2 * len(decided) > len(verdicts):
        for verdict in _DECIDED:
            if 2 * decided.count(verdict) > len(decided):
                return verdict
    return Verdict.ERROR if set(verdicts) == {Verdict.ERROR} else Verdict.UNSURE


def split_criteria(rulings: Sequence[Ruling]) -> list[str]:
    """The criteria on which the judges of a panel do not say the same."""
    return [ruling.criterion for ruling in rulings if len({vote.verdict for vote in ruling.votes}) > 1]


def _failure(
    outcomes: Sequence[Judgement | CheckedRuling | PaidFailure | AresError], paid: Cost
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
