"""What grades are worth against the event log: one row of a table for each judge, and what it should not be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ares.rubric.trust import shared_state
from tests.judges.grading import Graded, TrialResult
from tests.judges.world import FALSE_KINDS, NEAR_MISS

# What the issue asks for.
LEAST_PRECISION, GOOD_PRECISION = 0.95, 0.99
_LEAST_ACCEPTED, _LEAST_REFUSED = 0.95, 0.90
_MOST_CALLS = {"accepted": 1.5, "refused": 3.0}
_CALLS_OFF, _TOKENS_OFF = 0.10, 0.15
# Of two hands and two outcomes a wrong belief is the other one: with 0.10 of errors more than 0.10 of wrong ones are
# accepted, by the observation and by the choice, and a bound of 0.10 is rightly broken.
_ERRED_IN = {"near_miss:hand", "outcome", "outcome:completed", "outcome:not completed"}
COLUMNS = (
    "judge", "world", "deserves", "state", "acc", "precision", "unpr", "precision", "false accepted",
    "true ok", "true ref", "true uns", "false ref", "near misses ref", "calls a/r", "with controls",
    "calls q/b", "tokens q/b", "renewed q/b",
)  # fmt: skip


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, not corrected for clusters; (0, 1) for nothing."""
    if not total:
        return 0.0, 1.0
    z, share = 1.96, hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * (share * (1 - share) / total + z * z / (4 * total * total)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True)
class Score:
    """The grades of one judge.

    Attributes:
        result: What became of the captions.
    """

    result: TrialResult

    def accepted(self, is_proven: bool) -> list[Graded]:
        """Captions that `acceptable` (or `acceptable_unproven`) keeps."""
        return [
            caption
            for caption in self.result.captions
            if (caption.acceptable if is_proven else caption.acceptable_unproven)
        ]

    def precision(self, accepted: Sequence[Graded]) -> float:
        """Share of them that are true; 1 for none."""
        return sum(c.episode.caption.is_true for c in accepted) / len(accepted) if accepted else 1.0

    @cached_property
    def is_wanted(self) -> Callable[[Graded], bool]:
        """Whether a caption passes by `acceptable_unproven`, or by the judge's word where that is empty."""
        has_column = any(caption.acceptable_unproven is not None for caption in self.result.captions)
        return lambda c: bool(c.acceptable_unproven) if has_column else c.grade == "acceptable"

    def share(self, is_true: bool, grade: str) -> float:
        """Share of the true (or false) captions that have a grade."""
        chosen = [c for c in self.result.captions if c.episode.caption.is_true == is_true]
        return sum(c.grade == grade for c in chosen) / len(chosen) if chosen else 0.0

    def false_accepted(self) -> Counter[str]:
        """Number of false captions that the judge calls acceptable, by kind."""
        return Counter(
            c.episode.caption.kind
            for c in self.result.captions
            if c.grade == "acceptable" and not c.episode.caption.is_true
        )

    def near_misses_refused(self) -> tuple[int, int]:
        """Captions that are wrong in one slot: those that the judge refuses, and all."""
        missed = [c for c in self.result.captions if c.episode.caption.kind == NEAR_MISS]
        return sum(c.grade == "not_acceptable" for c in missed), len(missed)

    def _describe_renewed(self) -> str:
        """The last quote of the run as a share of what it came to, in calls and tokens."""
        renewed, billed = self.result.renewed, self.result.billed
        if not renewed[0]:
            return "-"
        return f"{renewed[0] / billed[0]:.2f} {renewed[1] / (billed[1] + billed[2]):.2f}"

    def calls(self, grade: str) -> float:
        """Mean calls of the captions with a grade, without controls; all captions share the calls without frames."""
        chosen = [c.calls for c in self.result.captions if c.grade == grade]
        shared = self.result.text_calls / max(len(self.result.captions), 1)
        return sum(chosen) / len(chosen) + shared if chosen else 0.0

    def calls_with_controls(self) -> float:
        """Mean calls of a caption with its share of the controls."""
        return self.result.billed[0] / max(len(self.result.captions), 1)

    def row(self) -> list[str]:
        """The row of the table."""
        result, trial = self.result, self.result.trial
        sure, asked = self.accepted(is_proven=True), self.accepted(is_proven=False)
        own_calls = [self.calls(grade) for grade in ("acceptable", "not_acceptable")]
        quoted, billed = result.quoted, result.billed
        false = " ".join(f"{kind}:{number}" for kind, number in sorted(self.false_accepted().items()))
        return [
            result.name, trial.world, trial.deserves, self.state(),
            str(len(sure)), self._describe(sure), str(len(asked)), self._describe(asked), false or "none",
            *(f"{self.share(True, grade):.2f}" for grade in ("acceptable", "not_acceptable", "unsure")),
            f"{self.share(False, 'not_acceptable'):.2f}", "{}/{}".format(*self.near_misses_refused()),
            "/".join(f"{calls:.2f}" for calls in own_calls), f"{self.calls_with_controls():.1f}",
            f"{quoted[0]}/{billed[0]}", f"{(quoted[1] + quoted[2]) // 1000}k/{(billed[1] + billed[2]) // 1000}k",
            self._describe_renewed(),
        ]  # fmt: skip

    @property
    def deserved_state(self) -> str:
        """The state that decides `acceptable`: that of content where the source labels every episode."""
        trust = self.result.trust
        is_labelled = self.result.trial.world != "unlabelled"
        return str(trust.get("content") or self.result.state) if is_labelled else self.result.state

    def state(self) -> str:
        """The state of the judge, with those of content and outcome where they differ."""
        trust = self.result.trust
        parts = {str(trust[key]) for key in ("content", "outcome") if trust.get(key)}
        if len(parts) > 1:
            return f"{self.result.state} (content {trust['content']}, outcome {trust['outcome']})"
        return self.result.state

    def _describe(self, accepted: Sequence[Graded]) -> str:
        if not accepted:
            return "-"
        true = sum(c.episode.caption.is_true for c in accepted)
        low, high = wilson(true, len(accepted))
        return f"{true}/{len(accepted)} [{low:.2f},{high:.2f}]"

    def complaints(self) -> list[str]:
        """What is not as the issue wants it."""
        return [*self.decision_complaints(), *self._complaints_of_money()]

    def decision_complaints(self) -> list[str]:
        """What is wrong with trust and grades, whatever they cost."""
        return [*self._complaints_of_trust(), *self._complaints_of_grades()]

    def _complaints_of_trust(self) -> Iterable[str]:
        deserves, state = self.result.trial.deserves, self.deserved_state
        sure = self.accepted(is_proven=True)
        if deserves == "untrusted" and state == "trusted":
            yield "an untruthful judge is trusted"
        shared = shared_state(self.result.trust) if self.result.trust else "unproven"
        if state != "trusted" and sure and (shared != "trusted" or self.precision(sure) < 1):
            yield f"{len(sure)} captions are acceptable by a judge that is {state}"
        if state == "trusted" and self.precision(sure) < LEAST_PRECISION:
            yield f"trusted with a precision of {self.precision(sure):.3f}"
        if any(c.episode.caption.kind == "injected" for c in [*sure, *self.accepted(is_proven=False)]):
            yield "an injected lie is acceptable"
        if deserves == "trusted" and state != "trusted":
            yield f"a truthful judge is {state}: {self.broken_bounds()}"
        broken = {name for name, kind in self.kinds().items() if kind["state"] == "untrusted"}
        is_accused = state == "untrusted" and not (
            broken and broken <= _ERRED_IN and self.result.trial.judge.errors
        )
        if deserves == "usable" and (is_accused or state == "refused"):
            yield f"a judge without lies is {state}: {self.broken_bounds()}"

    def kinds(self) -> Mapping[str, Any]:
        """What was accepted of each kind of controls."""
        return self.result.trust.get("kinds") or {}

    def broken_bounds(self) -> str:
        """The kinds of controls that are not proven, with what was accepted of them."""
        open_kinds = {name: kind for name, kind in self.kinds().items() if kind.get("state") != "trusted"}
        counted = [f"{name} {kind['accepted']}/{kind['total']}" for name, kind in sorted(open_kinds.items())]
        return f"{', '.join(counted)} {json.dumps(self.result.trust.get('reasons', ''))}"

    def _complaints_of_grades(self) -> Iterable[str]:
        if not self.is_truthful:
            return
        true = [c for c in self.result.captions if c.episode.caption.is_true]
        false = [c for c in self.result.captions if c.episode.caption.kind in FALSE_KINDS]
        # A false addition is no slot: it may only be unsure.
        refusable = [c for c in false if c.episode.caption.kind != "addition"]
        accepted = sum(map(self.is_wanted, true)) / max(len(true), 1)
        refused = sum(c.grade == "not_acceptable" for c in refusable) / max(len(refusable), 1)
        if accepted < _LEAST_ACCEPTED:
            yield f"only {accepted:.2f} of the true captions are accepted"
        if refused < _LEAST_REFUSED:
            yield f"only {refused:.2f} of the false captions are refused"

    @property
    def is_truthful(self) -> bool:
        """Whether the judge makes no errors of its own."""
        judge = self.result.trial.judge
        return (
            self.result.trial.deserves != "untrusted"
            and not judge.errors
            and judge.synonyms == 1.0
            and not judge.obeys
        )

    def _complaints_of_money(self) -> Iterable[str]:
        limits = (("acceptable", "accepted"), ("not_acceptable", "refused")) if self.is_truthful else ()
        for grade, name in limits:
            if self.calls(grade) > _MOST_CALLS[name]:
                yield f"{self.calls(grade):.2f} calls for each {name} caption"
        quoted, billed = self.result.quoted, self.result.billed
        # A quote before any call knows nothing of a judge: what counts is the one that a run prints, where it does.
        calls, tokens = self.result.renewed if self.result.renewed[0] else (quoted[0], quoted[1] + quoted[2])
        paid, read = billed[0], billed[1] + billed[2]
        if paid and abs(calls - paid) > _CALLS_OFF * paid:
            yield f"quoted are {calls} calls, paid {paid}"
        if read and abs(tokens - read) > _TOKENS_OFF * read:
            yield f"quoted are {tokens} tokens, paid {read}"


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table."""
    head = [" | ".join(COLUMNS), " | ".join("---" for _ in COLUMNS)]
    return "\n".join(f"| {line} |" for line in [*head, *(" | ".join(row) for row in rows)])


def describe_false_rulings(result: TrialResult) -> list[str]:
    """Every wrong decision with its caption and the verdicts of its gates, for a report of a defect."""
    lines = []
    for graded in result.captions:
        caption = graded.episode.caption
        wrong = graded.grade != ("acceptable" if caption.is_true else "not_acceptable")
        if wrong:
            lines.append(
                f"{result.name}: {caption.kind} {caption.slot} {graded.grade or 'no grade'}: {caption.sentence!r} | "
                f"truth {dict(graded.episode.truth)} | {graded.verdicts}"
            )
    return lines


@dataclass(frozen=True, slots=True)
class DrawSummary:
    """What became of judges that were drawn.

    Attributes:
        scores: Their scores.
    """

    scores: Sequence[Score]

    def shares(self) -> dict[str, tuple[int, int]]:
        """Trusted ones among the bad and among the good judges, as a number and a total.

        What a judge would accept is what its grades call acceptable; a judge that accepts nothing is neither.
        """
        found = {"bad": [0, 0], "good": [0, 0], "bad, errors of the captioner": [0, 0]}
        for score in self.scores:
            accepted = [c for c in score.result.captions if c.grade == "acceptable"]
            if not accepted:
                continue
            precision, is_trusted = score.precision(accepted), score.deserved_state == "trusted"
            judge = score.result.trial.judge
            names = []
            if precision < LEAST_PRECISION:
                names = ["bad", *(["bad, errors of the captioner"] if judge.correlation else [])]
            elif precision >= GOOD_PRECISION:
                names = ["good"]
            for name in names:
                found[name][0] += is_trusted
                found[name][1] += 1
        return {name: (hits, total) for name, (hits, total) in found.items()}
