"""The battery against judges of known error (synthetic): a clean one is cleared, a biased one is flagged."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ares.rubric import (
    FAMILIES,
    AttackCaption,
    AttackResult,
    CaptionAttackReport,
    KnownCaption,
    compose_attack_captions,
    report_battery,
    shipped_paraphrases,
)

TASKS = sorted(shipped_paraphrases())
TRUTHS = [
    KnownCaption(episode_id=f"{number:016x}", phrase=TASKS[number % 50], succeeded=number % 3 > 0)
    for number in range(300)
]
BATTERIES = [
    (truth, compose_attack_captions(truth, TRUTHS[:60], shipped_paraphrases(), 2, seed=0)) for truth in TRUTHS
]
_INJECTIONS = {"judge_addressed", "fake_json", "delimiters"}
Judge = Callable[[AttackCaption, random.Random], tuple[str, float]]


def _judge(
    sensitivity: float = 0.97,
    false_accepts: float = 0.0,
    unsure: float = 0.0,
    error: float = 0.0,
    obeys: float = 0.0,
    per_word: float = 0.0,
) -> Judge:
    """A judge that accepts truth and falsehood at these rates, obeys injections, and pays for words."""

    def grade(text: AttackCaption, dice: random.Random) -> tuple[str, float]:
        score = 0.5 + per_word * len(text.text.split()) + dice.gauss(0, 0.01)
        draw = dice.random()
        if draw < unsure + error:
            return ("unsure" if draw < unsure else "error"), score
        is_true = FAMILIES[text.family].is_true
        rate = sensitivity if is_true else obeys if text.family in _INJECTIONS else false_accepts
        return ("acceptable" if dice.random() < rate else "not_acceptable"), score

    return grade


def _run(judge: Judge, seed: int = 1) -> CaptionAttackReport:
    dice = random.Random(seed)
    results = []
    for truth, texts in BATTERIES:
        for text in texts:
            grade, score = judge(text, dice)
            results.append(
                AttackResult(
                    family=text.family, text=text.text, episode_id=truth.episode_id, grade=grade, score=score
                )
            )
    return report_battery(results)


def _rate(report: CaptionAttackReport, family: str) -> float:
    (result,) = [result for result in report.families if result.family == family]
    assert result.rate is not None and result.low <= result.rate <= result.high
    return result.rate


def test_a_clean_judge_is_cleared() -> None:
    report = _run(_judge())
    assert not report.broken
    states = {result.family: result.state for result in report.families}
    assert states["wrong_verb"] == states["paraphrase"] == states["judge_addressed"] == "kept"
    assert abs(report.length_correlation or 0.0) < 0.1


def test_the_rates_of_a_judge_are_recovered() -> None:
    report = _run(_judge(sensitivity=0.8, false_accepts=0.3, unsure=0.1, error=0.05, obeys=0.6))
    for family, rate in (("exact_truth", 0.8), ("wrong_object", 0.3), ("fake_json", 0.6)):
        (result,) = [result for result in report.families if result.family == family]
        assert result.low <= rate * 0.85 <= result.high, family
        assert result.unsure / result.texts == pytest.approx(0.1, abs=0.05)
        assert result.failed / result.texts == pytest.approx(0.05, abs=0.04)


@pytest.mark.parametrize("family", sorted(_INJECTIONS))
def test_a_judge_that_obeys_captions_is_flagged(family: str) -> None:
    broken = _run(_judge(obeys=0.2)).broken
    assert family in broken and "wrong_verb" not in broken


def test_a_judge_that_pays_for_words_is_flagged() -> None:
    assert (_run(_judge(per_word=0.01)).length_correlation or 0.0) > 0.5


def test_a_judge_that_says_yes_breaks_every_bound() -> None:
    report = _run(lambda text, dice: ("acceptable", 1.0))
    assert set(report.broken) == {result.family for result in report.families if not result.is_true}
    assert report.length_correlation is None and report.same_grade == 1.0


@pytest.mark.parametrize("grade", ["not_acceptable", "unsure", "error", "failed"])
def test_a_judge_that_accepts_nothing_is_not_cleared(grade: str) -> None:
    report = _run(lambda text, dice: (grade, 0.0))
    assert {"exact_truth", "paraphrase"} <= set(report.broken)


def test_shuffled_grades_tell_truth_from_falsehood_no_more() -> None:
    dice = random.Random(4)
    report = _run(lambda text, _: ("acceptable" if dice.random() < 0.5 else "not_acceptable", 0.5))
    assert _rate(report, "exact_truth") == pytest.approx(_rate(report, "wrong_verb"), abs=0.12)
    assert "wrong_verb" in report.broken


def test_few_episodes_prove_nothing() -> None:
    results = [
        AttackResult(family=family, text="x", episode_id=str(number), grade=grade)
        for number in range(20)
        for family, grade in (("exact_truth", "acceptable"), ("wrong_verb", "not_acceptable"))
    ]
    states = {result.family: result.state for result in report_battery(results).families}
    assert (states["exact_truth"], states["wrong_verb"], states["generic"]) == ("kept", "open", "untested")


def test_the_criterion_that_refuses_a_family_is_named() -> None:
    results = [
        AttackResult(
            family="wrong_verb",
            text="x",
            episode_id=str(number),
            grade="not_acceptable",
            verdicts={"VERB": "UNMET" if number else "MET", "OBJECT": "MET"},
        )
        for number in range(4)
    ]
    assert report_battery(results).refused_by == {"wrong_verb": {"VERB": 0.75}}
