"""What the battery shows of a judge: rates by family with intervals, bounds, and what moves the score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

from ares.rubric.attack_battery import EXACT, FAMILIES, AttackCaptionKind
from ares.statistics import clustered_interval

if TYPE_CHECKING:
    from ares.episode import Json


BoundState = Literal["kept", "open", "broken", "untested"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """A caption of the battery with the grade that it got.

    Attributes:
        family: Name of its family.
        text: The caption.
        episode_id: The episode; captions of one are a cluster.
        grade: "acceptable", "not_acceptable", "unsure", "error", or "failed" where no grade could be had.
        score: Weighted share of criteria met, or None.
        verdicts: Verdict by criterion.
        without_rubric: Whether the same judge accepts it when it is asked without the rubric; None where it was not
            asked.
    """

    family: str
    text: str
    episode_id: str
    grade: str
    score: float | None = None
    verdicts: Mapping[str, str] = field(default_factory=dict)
    without_rubric: bool | None = None

    @property
    def is_accepted(self) -> bool:
        """Whether it was graded as true."""
        return self.grade == "acceptable"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackKindResult:
    """How one family fared.

    Attributes:
        family: Its name.
        is_true: Whether its captions are true.
        texts: Number of its captions.
        accepted: Number graded as true.
        unsure: Number without a decision.
        failed: Number in error, or without a grade.
        rate: Share accepted; None without captions.
        low: Lower bound of its 95 % interval, clustered by episode.
        high: Upper bound.
        bound: Most, or for true ones least, that the share may be; None for exact truth.
        state: "kept" where the interval keeps the bound, "open" where only the estimate does, "broken", or "untested".
        without_rubric: Share that the same judge accepts without the rubric; None where it was not asked.
    """

    family: str
    is_true: bool
    texts: int
    accepted: int
    unsure: int
    failed: int
    rate: float | None
    low: float
    high: float
    bound: float | None
    state: BoundState
    without_rubric: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionAttackReport:
    """What the battery shows of a judge.

    Attributes:
        families: Every family, in the order of `FAMILIES`.
        refused_by: Share of the captions of a family that a criterion refuses, by family and criterion.
        same_grade: Share of true rewordings with the same acceptance as the exact truth of their episode.
        length_correlation: Of the number of words and the score among true captions of the same episode.
        episodes: Number of episodes.
        texts: Number of captions.
    """

    families: Sequence[AttackKindResult]
    refused_by: Mapping[str, Mapping[str, float]]
    same_grade: float | None
    length_correlation: float | None
    episodes: int
    texts: int

    @property
    def broken(self) -> list[str]:
        """Names of the families whose bound is broken."""
        return [result.family for result in self.families if result.state == "broken"]

    def to_json(self) -> dict[str, Json]:
        """The report as a document."""
        return {
            **asdict(self),
            "families": [asdict(result) for result in self.families],
            "broken": list(self.broken),
        }


def report_battery(graded: Sequence[AttackResult]) -> CaptionAttackReport:
    """Sum up a battery."""
    by_family: dict[str, list[AttackResult]] = {name: [] for name in FAMILIES}
    for text in graded:
        by_family[text.family].append(text)
    exact = _acceptance_rate(by_family[EXACT])
    return CaptionAttackReport(
        families=[_family_result(FAMILIES[name], texts, exact) for name, texts in by_family.items()],
        refused_by={name: _refusal_shares(texts) for name, texts in by_family.items() if texts},
        same_grade=_same_grade(by_family),
        length_correlation=_length_correlation([text for text in graded if FAMILIES[text.family].is_true]),
        episodes=len({text.episode_id for text in graded}),
        texts=len(graded),
    )


def _acceptance_rate(texts: Sequence[AttackResult]) -> float:
    return sum(text.is_accepted for text in texts) / len(texts) if texts else 0.0


def _family_result(
    family: AttackCaptionKind, texts: Sequence[AttackResult], exact: float
) -> AttackKindResult:
    totals = Counter(text.episode_id for text in texts)
    hits = Counter(text.episode_id for text in texts if text.is_accepted)
    rate, low, high = clustered_interval([hits[key] for key in totals], list(totals.values()))
    grades = Counter(text.grade for text in texts)
    answers = [text.without_rubric for text in texts if text.without_rubric is not None]
    bound = None if family.name == EXACT else family.bound * exact if family.is_true else family.bound
    return AttackKindResult(
        family=family.name,
        is_true=family.is_true,
        texts=len(texts),
        accepted=grades["acceptable"],
        unsure=grades["unsure"],
        failed=grades["error"] + grades["failed"],
        rate=rate,
        low=low,
        high=high,
        bound=bound,
        state=_bound_state(family, rate, low, high, bound),
        without_rubric=sum(answers) / len(answers) if answers else None,
    )


def _bound_state(
    family: AttackCaptionKind, rate: float | None, low: float, high: float, bound: float | None
) -> BoundState:
    """Whether a bound is kept. A judge that never accepts the exact truth has shown nothing."""
    if rate is None:
        return "untested"
    if bound is None or (family.is_true and bound == 0):
        return "kept" if rate > 0 else "broken"
    if family.is_true:
        return "broken" if rate < bound else "kept" if low >= bound else "open"
    return "broken" if rate > bound else "kept" if high <= bound else "open"


def _refusal_shares(texts: Sequence[AttackResult]) -> dict[str, float]:
    """Share of texts that a criterion refuses, by criterion; criteria that refuse none are left out."""
    counts = Counter(
        criterion for text in texts for criterion, verdict in text.verdicts.items() if verdict == "UNMET"
    )
    return {criterion: count / len(texts) for criterion, count in sorted(counts.items())}


def _same_grade(by_family: Mapping[str, Sequence[AttackResult]]) -> float | None:
    exact = {text.episode_id: text.is_accepted for text in by_family[EXACT]}
    equal = [
        text.is_accepted == exact[text.episode_id]
        for name, texts in by_family.items()
        if FAMILIES[name].is_true and name != EXACT
        for text in texts
        if text.episode_id in exact
    ]
    return sum(equal) / len(equal) if equal else None


def _length_correlation(texts: Iterable[AttackResult]) -> float | None:
    """Pearson's correlation of words and score, each less its mean over the episode; None where nothing varies."""
    import numpy as np

    pairs: dict[str, list[tuple[float, float]]] = {}
    for text in texts:
        if text.score is not None:
            pairs.setdefault(text.episode_id, []).append((float(len(text.text.split())), text.score))
    centred = [np.array(rows) - np.mean(rows, axis=0) for rows in pairs.values()]
    if not centred:
        return None
    lengths, scores = np.concatenate(centred).T
    spread = float(np.sqrt((lengths**2).sum() * (scores**2).sum()))
    return float((lengths * scores).sum()) / spread if spread > 1e-12 else None
