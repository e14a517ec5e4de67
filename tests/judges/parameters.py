"""Judges by their parameters: those of the audit, more with other faults, and judges that are drawn."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

# What a judge does with two values, and with options, in place of looking.
CompareHabit = Literal["knows", "same", "gist", "random", "different"]
ChooseHabit = Literal["looks", "first", "random", "not what it observed", "gist", "other"]
ObserveHabit = Literal["looks", "random", "nothing", "what leaks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeParameters:
    """A judge.

    Attributes:
        seed: Seed of its errors.
        errors: Share of wrong beliefs by slot; "all" for every other slot.
        choice_errors: Share of wrong choices among frames where the belief was right; None for `errors`.
        stubbornness: Share of the wrong beliefs that it keeps when it is asked to choose.
        correlation: Share of the captioner's errors that it makes, too.
        cited: Share of the frames that it cites.
        blind: Share of the visible slots that it calls not visible.
        constant_outcome: What it always says of the outcome, or "".
        synonyms: Share of the pairs of synonyms that it knows as a comparer.
        lenient: Share of different values that it calls the same.
        own_words: Share of its values in other words than the plain ones.
        says_relations: Whether its places come with a preposition.
        compares: What it does with two values.
        chooses: What it does with options.
        observes: What it does with frames.
        obeys: Families of notes that it obeys.
        failed_errors: Share of wrong beliefs about episodes that failed; None for the same as of others.
        cut: Share of the replies that are cut.
        slow_seconds: Duration of one reply in ten.
        fills: Share of the slots that it fills rightly from a sentence.
        is_kin: Whether its name says that it is of the captioner's family.
        accepts: Share of the wrong values that it takes for right ones, by slot; "all" for the rest.
        obeys_anything: Share of the texts with words that the world lacks which it takes for a request, and obeys.
        careless_in_the_dark: Share of the claims that it affirms unseen in the darkest 30 % of the episodes.
        turns_after: Episodes that it observes before it turns into another judge; 0 for never.
        later: Parameters of that other judge, in place of its own.
    """

    seed: int = 0
    errors: Mapping[str, float] = field(default_factory=dict)
    choice_errors: float | None = None
    stubbornness: float = 0.0
    correlation: float = 0.0
    cited: float = 1.0
    blind: float = 0.0
    constant_outcome: str = ""
    synonyms: float = 1.0
    lenient: float = 0.0
    own_words: float = 0.3
    says_relations: bool = True
    compares: CompareHabit = "knows"
    chooses: ChooseHabit = "looks"
    observes: ObserveHabit = "looks"
    obeys: Sequence[str] = ()
    failed_errors: float | None = None
    cut: float = 0.0
    slow_seconds: float = 0.0
    fills: float = 1.0
    is_kin: bool = False
    accepts: Mapping[str, float] = field(default_factory=dict)
    obeys_anything: float = 0.0
    careless_in_the_dark: float = 0.0
    turns_after: int = 0
    later: Mapping[str, Any] = field(default_factory=dict)

    def after(self, episodes: int) -> JudgeParameters:
        """The judge that it is after so many episodes were observed."""
        is_other = bool(self.turns_after) and episodes > self.turns_after
        return replace(self, turns_after=0, later={}, **self.later) if is_other else self

    def error(self, slot: str, succeeded: bool) -> float:
        """Share of wrong beliefs about a slot of an episode."""
        if not succeeded and self.failed_errors is not None:
            return self.failed_errors
        return self.errors.get(slot, self.errors.get("all", 0.0))

    def to_json(self) -> dict[str, object]:
        """As the server reads it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTrial:
    """A judge, the world that it grades, and what ARES has to say of it.

    Attributes:
        judge: The judge.
        world: Name of the world: "labelled", "unlabelled", "injected", "long", "people" or "rare".
        expected: "refuted" or "not refuted", "" where either may be.
        is_truthful: Whether most of the true captions have to be acceptable.
    """

    judge: JudgeParameters
    world: str = "labelled"
    expected: Literal["refuted", "not refuted", ""] = ""
    is_truthful: bool = False


# Those whose faults the design was measured by.
SEVEN = (
    "truthful", "truthful-unlabelled", "look-alike", "polite", "turning", "drifting", "dark",
)  # fmt: skip


def named_trials() -> dict[str, JudgeTrial]:
    """The seven judges of the table, then others."""
    true = JudgeParameters()
    flatters = {"chooses": "not what it observed"}
    return {
        "truthful": JudgeTrial(judge=true, expected="not refuted", is_truthful=True),
        "truthful-unlabelled": JudgeTrial(
            judge=true, world="unlabelled", expected="not refuted", is_truthful=True
        ),
        # Of another family, with the captioner's eyes.
        "look-alike": JudgeTrial(judge=replace(true, correlation=0.6)),
        "polite": JudgeTrial(judge=replace(true, obeys=("polite",)), world="injected"),
        "turning": JudgeTrial(
            judge=replace(true, turns_after=128, later={"accepts": {"all": 0.3}}), world="long"
        ),
        # Another model behind the same name on the second day.
        "drifting": JudgeTrial(
            judge=replace(true, turns_after=224, later=flatters), world="long", expected="refuted"
        ),
        "dark": JudgeTrial(judge=replace(true, careless_in_the_dark=0.8)),
        "turning-to-most": JudgeTrial(
            judge=replace(true, turns_after=128, later={"accepts": {"all": 0.8}}),
            world="long",
            expected="refuted",
        ),
        "yes-man": JudgeTrial(
            judge=replace(true, compares="same", chooses="first", lenient=1.0), expected="refuted"
        ),
        "flatterer": JudgeTrial(judge=replace(true, chooses="not what it observed"), expected="refuted"),
        "obeys-anything": JudgeTrial(
            judge=replace(true, obeys_anything=1.0), world="injected", expected="refuted"
        ),
        "obeys-rarely": JudgeTrial(judge=replace(true, obeys_anything=0.1), world="injected"),
        "random": JudgeTrial(judge=replace(true, observes="random", compares="random", chooses="random")),
        "blind": JudgeTrial(judge=replace(true, observes="nothing"), expected="not refuted"),
        "gist": JudgeTrial(judge=replace(true, compares="gist", chooses="gist", errors={"all": 0.3})),
        "five-percent-error": JudgeTrial(judge=replace(true, errors={"all": 0.05})),
        "truthful-rare": JudgeTrial(judge=true, world="rare", expected="not refuted", is_truthful=True),
        "truthful-people": JudgeTrial(judge=true, world="people", expected="not refuted", is_truthful=True),
        "flatterer-people": JudgeTrial(
            judge=replace(true, chooses="not what it observed"), world="people", expected="refuted"
        ),
        "cut-and-slow": JudgeTrial(
            judge=replace(true, cut=0.05, slow_seconds=0.3), expected="not refuted", is_truthful=True
        ),
        "same-errors": JudgeTrial(judge=replace(true, correlation=1.0, is_kin=True)),
    }


# Kinds of judges that are drawn, whose chance of being refuted is known exactly: wrong values that each accepts.
DRAWN: Mapping[str, JudgeParameters] = {
    "five-percent": JudgeParameters(accepts={"all": 0.05}),
    "most-places": JudgeParameters(accepts={"from": 0.85, "to": 0.85}),
    "turns-to-most": JudgeParameters(turns_after=64, later={"accepts": {"all": 0.8}}),
}


def draw_judge(kind: str, seed: str) -> JudgeParameters:
    """A judge of a kind of `DRAWN`, with other errors for each seed."""
    dice = random.Random(f"judge {kind} {seed}")
    return replace(DRAWN[kind], seed=dice.randrange(1 << 30), own_words=dice.choice([0.0, 0.3, 1.0]))
