"""The bars of a judge of captions: what was wanted, what was measured, and what no threshold could reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ares.rubric.attacks import EXACT, FAMILIES, AttackResult
from ares.statistics import compare_paired
from benchmarks.grading.captions import GradedCaption, best_precision
from benchmarks.grading.intervals import Share, measure_ratio, measure_share

PRECISION, COVERAGE, EXACT_REFUSED, WRONG_REFUSED = 0.95, 0.50, 0.10, 0.90
_WRONG = {"verb": "wrong_verb", "object": "wrong_object", "place": "wrong_destination"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar.

    Attributes:
        name: What is measured.
        sign: Whether the share has to be at least or at most the bound.
        bound: The bound.
        measured: The share.
        beside: What stands beside it.
        ceiling: What the beliefs allow, where the bar is missed; "" where nothing says so.
    """

    name: str
    sign: Literal[">=", "<="]
    bound: float
    measured: Share
    beside: str = ""
    ceiling: str = ""

    @property
    def state(self) -> str:
        """Whether the bar is met by the whole interval, by the estimate alone, or missed."""
        value = self.measured.value
        if value is None:
            return "not measured"
        if self.sign == ">=":
            inside, shown = value >= self.bound, self.measured.low >= self.bound
        else:
            inside, shown = value <= self.bound, self.measured.high <= self.bound
        if not inside:
            return "MISSED"
        return "met" if shown else "met by the estimate"

    def row(self) -> str:
        """The bar as a row of a table."""
        is_missed = self.state == "MISSED"
        cells = (
            self.name,
            f"{self.sign} {self.bound:.3g}",
            self.measured,
            self.beside,
            self.state,
            self.ceiling if is_missed else "",
        )
        return "| " + " | ".join(str(cell) for cell in cells) + " |"


HEADER = (
    "| bar | wanted | measured (95 %) | beside | state | ceiling of the beliefs |\n|---|---|---|---|---|---|"
)


def caption_bars(captions: Sequence[GradedCaption]) -> Iterator[Bar]:
    """Precision and coverage of `acceptable` on the captions of a captioner."""
    accepted = [caption for caption in captions if caption.is_accepted]
    false = [caption for caption in accepted if not caption.is_true]
    best, coverage = best_precision(captions, COVERAGE)
    yield Bar(
        name="precision of `acceptable`",
        sign=">=",
        bound=PRECISION,
        measured=measure_share([c.is_true for c in accepted], [c.task for c in accepted]),
        beside=f"{sum(not c.succeeded for c in false)} of {len(false)} false ones on failed episodes",
        ceiling=f"{best:.3f} at coverage {coverage:.2f}",
    )
    true = [caption for caption in captions if caption.is_true]
    yield Bar(
        name="coverage",
        sign=">=",
        bound=COVERAGE,
        measured=measure_share([c.is_accepted for c in captions], [c.task for c in captions]),
        beside=f"{len(true)} of {len(captions)} captions are true, of these accepted "
        f"{sum(c.is_accepted for c in true)}",
    )


def text_bars(texts: Sequence[AttackResult], tasks: Mapping[str, str]) -> Iterator[Bar]:
    """Exact truth, wrong parts and flipped outcomes."""
    exact = [text for text in texts if text.family == EXACT]
    yield Bar(
        name="exact truth refused",
        sign="<=",
        bound=EXACT_REFUSED,
        measured=_grade_share(exact, "not_acceptable", tasks),
        beside=f"accepted {_grade_share(exact, 'acceptable', tasks)}; {_unsure(exact)}",
        ceiling=f"the task is seen first in {_seen(exact)}",
    )
    for part, family in _WRONG.items():
        own = [text for text in texts if text.family == family]
        accepted = _grade_share(own, "acceptable", tasks)
        ceiling = _separable(own, exact, 1.0 - WRONG_REFUSED)
        yield Bar(
            name=f"wrong {part} refused",
            sign=">=",
            bound=WRONG_REFUSED,
            measured=_grade_share(own, "not_acceptable", tasks),
            beside=_unsure(own),
            ceiling=ceiling,
        )
        bound = FAMILIES[family].bound
        yield Bar(name=f"wrong {part} accepted", sign="<=", bound=bound, measured=accepted)


def family_bars(texts: Sequence[AttackResult], tasks: Mapping[str, str]) -> Iterator[Bar]:
    """Each family of false texts, with refused and unsure apart."""
    exact = [text for text in texts if text.family == EXACT]
    for name, family in FAMILIES.items():
        own = [text for text in texts if text.family == name]
        if family.is_true or name in _WRONG.values():
            continue
        refused = _grade_share(own, "not_acceptable", tasks)
        yield Bar(
            name=f"`{name}` accepted",
            sign="<=",
            bound=family.bound,
            measured=_grade_share(own, "acceptable", tasks),
            beside=f"refused {refused.hits}, {_unsure(own)}",
            ceiling=_separable(own, exact, family.bound),
        )


def paraphrase_bars(texts: Sequence[AttackResult], tasks: Mapping[str, str]) -> Iterator[Bar]:
    """True rewordings against the exact truth of the same episodes."""
    false = [text for text in texts if text.family in _WRONG.values()]
    for name in ("paraphrase", "third_person", "reworded"):
        yield _against_exact(name, texts, tasks, false)


def _against_exact(
    family: str,
    texts: Sequence[AttackResult],
    tasks: Mapping[str, str],
    false: Sequence[AttackResult],
) -> Bar:
    own = [text for text in texts if text.family == family]
    exact = {text.episode_id: text for text in texts if text.family == EXACT}
    wanted = [exact[text.episode_id].is_accepted for text in own]
    rate = _grade_share(own, "acceptable", tasks)
    refused = _grade_share(own, "not_acceptable", tasks)
    ratio = measure_ratio([text.is_accepted for text in own], wanted, [tasks[t.episode_id] for t in own])
    return Bar(
        name=f"`{family}` accepted, over exact truth",
        sign=">=",
        bound=FAMILIES[family].bound,
        measured=ratio,
        beside=f"accepted {rate}; refused {refused.hits}; {_unsure(own)}",
        ceiling=_separable(own, own, FAMILIES["wrong_verb"].bound, false),
    )


def baseline_rows(captions: Sequence[GradedCaption]) -> Iterator[str]:
    """Simpler judges on the same menu, and the paired difference of right decisions."""
    yield "| judge, same menu | precision | coverage | decides right | judge - this | McNemar p |"
    yield "|---|---|---|---|---|---|"
    tasks = [caption.task for caption in captions]
    own = [caption.is_accepted for caption in captions]
    for name, decisions in {
        "the judge": own,
        "top phrase only": [caption.is_top_phrase for caption in captions],
        "top phrase and its outcome": [caption.top_outcome_agrees for caption in captions],
    }.items():
        right = _right(captions, decisions)
        accepted = [caption for caption, is_in in zip(captions, decisions, strict=True) if is_in]
        change = compare_paired(right, _right(captions, own), tasks, seed=0)
        difference = f"{change.difference:+.3f} ({change.low:+.3f} to {change.high:+.3f})"
        cells = (
            name,
            measure_share([caption.is_true for caption in accepted], [caption.task for caption in accepted]),
            measure_share(decisions, tasks),
            measure_share(right, tasks),
            "" if name == "the judge" else difference,
            "" if name == "the judge" else f"{change.p_value:.2g}",
        )
        yield "| " + " | ".join(map(str, cells)) + " |"


def _right(captions: Sequence[GradedCaption], accepted: Sequence[bool]) -> list[bool]:
    """Whether true captions are accepted and false ones are not."""
    return [caption.is_true == is_in for caption, is_in in zip(captions, accepted, strict=True)]


def _grade_share(texts: Sequence[AttackResult], grade: str, tasks: Mapping[str, str]) -> Share:
    return measure_share([text.grade == grade for text in texts], [tasks[t.episode_id] for t in texts])


def _unsure(texts: Sequence[AttackResult]) -> str:
    failed = sum(text.grade in ("error", "failed") for text in texts)
    unsure = sum(text.grade == "unsure" for text in texts)
    return f"unsure {unsure}" + (f", failed {failed}" if failed else "")


def _seen(exact: Sequence[AttackResult]) -> str:
    """How many episodes show the true action by the judge's own beliefs."""
    seen = sum(text.verdicts.get("VERB") == "MET" and text.verdicts.get("OBJECT") == "MET" for text in exact)
    return f"{seen} of {len(exact)}"


def _separable(
    own: Sequence[AttackResult],
    true: Sequence[AttackResult],
    most_false: float,
    false: Sequence[AttackResult] | None = None,
) -> str:
    """Share of true texts above the least threshold on beliefs that keeps the share of false ones above it down."""
    import numpy as np

    below = sorted(text.belief or 0.0 for text in (own if false is None else false))
    if not below or not true:
        return ""
    threshold = float(np.quantile(below, 1.0 - most_false, method="higher"))
    passing = sum((text.belief or 0.0) > threshold for text in true)
    kind = "exact truth" if false is None else "these"
    return f"{passing} of {len(true)} of {kind} pass where {most_false:g} of the false do"
