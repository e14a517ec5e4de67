"""What controls say of judges of known errors (stubs, no model): trusted, unproven or untrusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ares.episode import Json
from ares.rubric import JudgeTrust, describe_trust
from ares.rubric.trust import count_control_gradings, count_panel_control_errors, decide_trust

# The controls of one caption, as a run makes them.
KINDS = ("foreign", "foreign", "foreign", "flipped", "instruction", "paraphrase", "blank", "scrambled")
HONEST = {"own": 0.8, "instruction": 0.9, "paraphrase": 0.7}


def _values(accepts: Mapping[str, float], captions: int, seed: int = 0) -> list[dict[str, Any]]:
    """The controls of a judge that accepts each kind with a probability; 0 where none is given."""
    random = np.random.default_rng(seed)

    def grade(kind: str) -> dict[str, Any]:
        is_accepted = random.random() < accepts.get(kind, 0.0)
        return {
            "kind": kind,
            "grade": "acceptable" if is_accepted else "not_acceptable",
            "known_false": kind != "own",
        }

    return [{"gradings": [grade("own"), *map(grade, KINDS)]} for _ in range(captions)]


def _trust(accepts: Mapping[str, float], captions: int, seed: int = 0) -> JudgeTrust:
    return decide_trust(count_control_gradings(_values(accepts, captions, seed)))


def test_a_judge_that_accepts_true_texts_alone_is_trusted() -> None:
    trust = _trust(HONEST, 30)
    assert (trust.state, trust.reasons) == ("trusted", ())
    assert trust.counts.false_captions == (0, 120)


def test_a_judge_that_says_yes_is_untrusted() -> None:
    trust = _trust(dict.fromkeys({"own", *KINDS}, 1.0), 15)
    assert trust.state == "untrusted"
    assert "more than 5% of false captions are accepted" in trust.reasons


def test_a_judge_that_refuses_everything_is_not_trusted_and_with_200_controls_untrusted() -> None:
    assert _trust({}, 20).state == "unproven"
    assert _trust({}, 25).state == "untrusted"


def test_a_judge_that_does_not_need_the_frames_is_untrusted() -> None:
    """It knows which texts are true, from the texts: blank and scrambled frames change nothing."""
    trust = _trust({**HONEST, "blank": 0.8, "scrambled": 0.8}, 60)
    assert trust.state == "untrusted"
    assert trust.reasons == (
        "captions of blank frames are accepted as often as the captions themselves",
        "captions of scrambled frames are accepted as often as the captions themselves",
    )


def test_too_few_controls_prove_nothing() -> None:
    trust = _trust(HONEST, 14)
    assert (trust.state, trust.reasons[0]) == ("unproven", "56 of 59 false captions graded")


def test_a_judge_whose_errors_are_not_bounded_is_unproven() -> None:
    values = _values(HONEST, 40)
    for value in values[:6]:
        value["gradings"][1]["grade"] = "acceptable"
    counts = count_control_gradings(values)
    assert counts.false_captions == (6, 160)
    trust = decide_trust(counts)
    assert (trust.state, trust.reasons) == ("unproven", ("false accepts may be more than 5%",))


def test_a_judge_on_the_bound_is_seldom_called_either() -> None:
    """At exactly 5 % false accepts both words are wrong in at most 5 of 100 samples."""
    accepts = {**HONEST, "foreign": 0.05, "flipped": 0.05}
    states = [_trust(accepts, 40, seed).state for seed in range(400)]
    assert states.count("trusted") <= 0.08 * len(states)
    assert states.count("untrusted") <= 0.08 * len(states)


@pytest.mark.parametrize(("correlation", "captions"), [(0.1, 30), (0.5, 40)])
def test_a_judge_that_errs_on_whole_episodes_is_seldom_called_trusted(
    correlation: float, captions: int
) -> None:
    """At 5 % false accepts, of which those of an episode go together, "trusted" is wrong in few samples."""
    shape = (1 - correlation) / correlation
    trusted = 0
    for seed in range(200):
        rates = np.random.default_rng(seed).beta(0.05 * shape, 0.95 * shape, captions)
        values = [
            _values({**HONEST, "foreign": rate, "flipped": rate}, 1, 1_000 * seed + number)[0]
            for number, rate in enumerate(rates)
        ]
        trusted += decide_trust(count_control_gradings(values)).state == "trusted"
    assert trusted <= 0.08 * 200


def test_captions_of_one_episode_prove_less_than_captions_of_as_many_episodes() -> None:
    values = _values(HONEST, 30)
    alone, together = (
        count_control_gradings(values),
        count_control_gradings(values, ["one", "two", "three"] * 10),
    )
    assert (
        alone.accepted_of("own") == together.accepted_of("own")
        and alone.false_captions == together.false_captions
    )
    states = [decide_trust(counts).state for counts in (alone, together)]
    assert states == ["trusted", "unproven"]
    bounds: list[Any] = [
        decide_trust(counts).to_json()["false_accept_bounds"] for counts in (alone, together)
    ]
    assert bounds[0][1] < 0.05 < bounds[1][1]


def test_a_failed_grading_is_an_error_and_in_no_rate() -> None:
    values = _values(HONEST, 30)
    before = count_control_gradings(values)
    values[0]["gradings"] += [{"kind": "foreign", "grade": "error", "reason": "no answer"}] * 5
    after = count_control_gradings(values)
    assert after.errors == 5
    assert (after.false_captions, after.total) == (before.false_captions, before.total)


def test_unsure_is_no_accept() -> None:
    rows: list[Json] = [
        {"kind": "own", "grade": "unsure"},
        {"kind": "foreign", "grade": "unsure", "known_false": True},
    ]
    counts = count_control_gradings([{"gradings": rows}])
    assert counts.accepted_of("own") == (0, 1) and counts.false_captions == (0, 1)


@pytest.mark.parametrize(
    ("own", "known_false", "accepted"),
    [("acceptable", False, 1), ("not_acceptable", False, 0), ("not_acceptable", True, 1)],
)
def test_a_flipped_caption_may_be_the_true_one_where_nobody_knows(
    own: str, known_false: bool, accepted: int
) -> None:
    rows: list[Json] = [
        {"kind": "own", "grade": own},
        {"kind": "flipped", "grade": "acceptable", "known_false": known_false},
    ]
    assert count_control_gradings([{"gradings": rows}]).false_captions == (accepted, 1)


def test_a_refused_paraphrase_counts_where_the_caption_itself_was_accepted() -> None:
    refused: dict[str, Json] = {"kind": "paraphrase", "grade": "not_acceptable", "known_false": False}
    values: list[dict[str, Json]] = [
        {"gradings": [{"kind": "own", "grade": own}, refused]} for own in ("acceptable", "unsure")
    ]
    document = decide_trust(count_control_gradings(values)).to_json()
    assert (document["false_refusals"], document["paraphrases"]) == (1, 1)


def _panel_row(kind: str, *grades: str, known_false: bool = True) -> dict[str, Any]:
    named = dict(zip("abc", grades, strict=True))
    return {"kind": kind, "grade": "not_acceptable", "known_false": known_false, "grades": named}


def test_judges_that_err_on_the_same_texts_count_for_fewer_votes() -> None:
    bad, good = ("acceptable",) * 3, ("not_acceptable",) * 3
    same: list[Any] = [
        {"gradings": [_panel_row("foreign", *(bad if number < 4 else good))]} for number in range(20)
    ]
    votes = count_panel_control_errors(same)
    assert votes and votes.correlation == pytest.approx(1.0) and votes.effective == pytest.approx(1.0)
    apart: list[Any] = [
        {
            "gradings": [
                _panel_row(
                    "foreign",
                    *(
                        "acceptable" if number % 3 == judge and number < 12 else "unsure"
                        for judge in range(3)
                    ),
                )
            ]
        }
        for number in range(60)
    ]
    votes = count_panel_control_errors(apart)
    assert votes and votes.correlation is not None and -0.1 < votes.correlation < 0.0
    assert votes.effective == pytest.approx(3.0)
    assert votes.errors == {"a": 4, "b": 4, "c": 4}


def test_the_votes_of_a_panel_are_worth_what_the_design_effect_says() -> None:
    random = np.random.default_rng(3)
    shared, own = random.random(4_000) < 0.2, random.random((4_000, 3)) < 0.2
    copies = random.random((4_000, 3)) < 0.6
    errs = np.where(copies, shared[:, None], own)
    rows: list[Any] = [
        {
            "gradings": [
                _panel_row(
                    "instruction", *("unsure" if err else "acceptable" for err in row), known_false=False
                )
            ]
        }
        for row in errs.tolist()
    ]
    votes = count_panel_control_errors(rows)
    # Two judges copy the same error with probability 0.36.
    assert votes and votes.correlation == pytest.approx(0.36, abs=0.03)
    assert votes.effective == pytest.approx(3 / 1.72, abs=0.08)


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("judge", ["a", "b", "c"])
def test_a_judge_that_errs_always_or_never_is_compared_with_nobody(judge: str, share: float) -> None:
    """Its errors do not vary, so that nothing correlates with them; the other two are compared as before."""
    others = [name for name in "abc" if name != judge]
    rows: list[Any] = []
    for number in range(8):
        errs = {judge: bool(share), others[0]: number < 4, others[1]: number < 2}
        grades = ("acceptable" if errs[name] else "not_acceptable" for name in "abc")
        rows.append({"gradings": [_panel_row("foreign", *grades)]})
    votes = count_panel_control_errors(rows)
    assert votes and votes.errors == {judge: 8 * share, others[0]: 4, others[1]: 2}
    assert votes.correlation == pytest.approx((2 / 8 - 1 / 8) / np.sqrt(1 / 4 * 3 / 16))


def test_a_panel_without_errors_says_that_nothing_can_be_compared() -> None:
    votes = count_panel_control_errors([{"gradings": [_panel_row("foreign", *("unsure",) * 3)]}])
    assert votes and votes.to_json()["effective_votes"] is None
    values: list[Any] = [
        {"gradings": [_panel_row("foreign", *("unsure",) * 3), _panel_row("own", *("error",) * 3)]}
    ]
    line = describe_trust(decide_trust(count_control_gradings(values)).to_json())
    assert "the errors of 3 judges cannot be compared yet" in line
    assert count_panel_control_errors(_values(HONEST, 2)) is None, "a single judge is no panel"


def test_one_line_says_the_state_the_rates_and_the_reasons() -> None:
    line = describe_trust(_trust({**HONEST, "blank": 0.8}, 60).to_json())
    assert line.startswith("UNTRUSTED: accepts 0 of 240 false captions (0.000 to 0.016); refuses ")
    assert line.endswith("captions of blank frames are accepted as often as the captions themselves")
