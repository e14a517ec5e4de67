"""The attack on judges: the reference judge on real frames, and a server that says yes to everything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from annotators.attack import AttackRequest, AttackRun, quote_caption_attack, run_attack
from annotators.attack.grading import ReversedFrames
from annotators.base import Frames, Options
from app.demo.run import GRADE_OPTIONS
from ares.errors import RequestError
from ares.rubric import FAMILIES, parse_known_text
from ares.settings import Price
from ares.workspace import Workspace
from tests.annotators.conftest import ModelServer
from tests.annotators.judge_replies import data_of, judge, kind_of, observation

REQUEST = AttackRequest(episodes=2, per_family=1, seed=0)


def _attack(ws: Workspace, options: Options, request: AttackRequest = REQUEST) -> AttackRun:
    return run_attack(ws.stores, options, request, lambda done, total: None)


_EVERYTHING = {
    "to": "in the box",
    "from_": "on the table",
    "hand": "left hand",
    "manner": "slowly",
    "count": "one",
}


def _says_yes(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Fills slots as word tables do, sees something of every slot, and takes any two values for the same."""
    if kind_of(request) != "slots":
        return judge(observation(**_EVERYTHING))(request)
    sentence = str(data_of(request)["sentence"])
    stated = {str(slot): value for slot, value in parse_known_text(sentence).slots.items()}
    filled: dict[str, Any] = {
        name: stated.get(name, "") for name in ("object", "from", "to", "hand", "manner", "count")
    }
    filled["action"] = stated.get("action", "").partition(":")[0]
    filled["action_words"] = sentence.split()[0]
    filled["attributes"] = stated["attributes"].split(", ") if "attributes" in stated else []
    filled["outcome"] = stated.get("outcome", "completed")
    message = {"role": "assistant", "content": json.dumps(filled)}
    return [{"index": 0, "message": message, "finish_reason": "stop"}]


@pytest.fixture
def served(options: Options, model_server: ModelServer) -> Options:
    """A judge behind a server that says yes."""
    model_server.replies(_says_yes)
    settings = replace(options.settings, price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0))
    return replace(options, settings=settings, model=f"openai:Other/Judge-9B@{model_server.url}")


def test_the_reference_judge_refuses_nonsense_and_blank_frames(demo_ws: Workspace, options: Options) -> None:
    demo_ws.annotate("success", quiet=True)
    options = replace(options, values=GRADE_OPTIONS)
    attack = _attack(demo_ws, options, replace(REQUEST, where="success and instruction like '%drawer%'"))
    rates = {result.family: result.rate for result in attack.report.families}
    assert rates["exact_truth"] == 1.0
    nonsense = ("off_topic", "keyword_soup", "empty", "other_language", "blank_frames", "fake_json")
    assert {rates[family] for family in nonsense} == {0.0}
    assert {result.without_rubric is None for result in attack.report.families if "frames" in result.family}
    assert attack.cost.calls == 0
    ids = sorted(demo_ws.stores.tables.episodes.ids())
    assert not list(demo_ws.stores.annotations.find_annotations(ids, ["grade"])), "no grade is stored"


def test_only_the_families_that_are_asked_for_are_graded(demo_ws: Workspace, options: Options) -> None:
    options = replace(options, values=GRADE_OPTIONS)
    attack = _attack(demo_ws, options, replace(REQUEST, families=("exact_truth", "empty")))
    assert {text.family for text in attack.graded} == {"exact_truth", "empty"}


def test_a_server_that_always_says_yes_is_flagged(
    demo_ws: Workspace, served: Options, model_server: ModelServer
) -> None:
    attack = _attack(demo_ws, served)
    broken = set(attack.report.broken)
    assert {"wrong_verb", "off_topic", "blank_frames", "invented_actor"} <= broken
    assert not broken & {name for name, family in FAMILIES.items() if family.is_true}
    assert attack.cost.calls == len(model_server.requests)
    assert attack.cost.usd and attack.cost.usd > 0


def test_what_was_paid_is_not_paid_again(
    demo_ws: Workspace, served: Options, model_server: ModelServer
) -> None:
    first = _attack(demo_ws, served)
    calls = len(model_server.requests)
    second = _attack(demo_ws, served)
    assert second.report == first.report
    assert len(model_server.requests) - calls == second.cost.calls <= 1, "only the test call is made again"


def test_the_price_is_quoted_without_a_call(
    demo_ws: Workspace, served: Options, model_server: ModelServer
) -> None:
    quote = quote_caption_attack(demo_ws.stores, served, REQUEST)
    assert not model_server.requests
    attack = _attack(demo_ws, served)
    assert (quote.episodes, quote.texts) == (2, attack.report.texts)
    assert attack.cost.calls <= quote.cost.calls < 4 * attack.cost.calls


def test_the_truth_may_be_a_column(demo_ws: Workspace, options: Options) -> None:
    options = replace(options, values=GRADE_OPTIONS)
    with pytest.raises(RequestError, match="no text column 'num_steps'"):
        quote_caption_attack(demo_ws.stores, options, replace(REQUEST, truth="num_steps"))
    by_instruction = quote_caption_attack(demo_ws.stores, options, REQUEST)
    by_column = quote_caption_attack(demo_ws.stores, options, replace(REQUEST, truth="instruction"))
    assert by_instruction.texts == by_column.texts
    assert by_instruction.warnings and not by_column.warnings


@pytest.mark.parametrize("where", ["num_steps < 0", "instruction = ''"])
def test_without_an_episode_there_is_no_battery(demo_ws: Workspace, options: Options, where: str) -> None:
    with pytest.raises(RequestError, match="no episode has a truth"):
        quote_caption_attack(demo_ws.stores, options, replace(REQUEST, where=where))


def test_paraphrases_of_a_file_are_used(demo_ws: Workspace, served: Options, tmp_path: Path) -> None:
    path = tmp_path / "paraphrases.yaml"
    path.write_text("push the green drawer closed:\n- green drawer to be shut\n")
    request = replace(REQUEST, paraphrases=path, where="success and instruction like '%drawer%'")
    attack = _attack(demo_ws, served, request)
    assert "green drawer to be shut" in {text.text for text in attack.graded}


def test_a_budget_needs_a_price(demo_ws: Workspace, options: Options) -> None:
    with pytest.raises(RequestError, match="a budget needs a price"):
        _attack(demo_ws, options, replace(REQUEST, budget_usd=1.0))


def test_reversed_frames_begin_with_the_last_one() -> None:
    class Numbered(Frames):
        def __init__(self) -> None:
            self._seconds = {"front": [0.0, 1.0, 2.0]}

        def at(self, camera: str, seconds: Any) -> Any:
            return np.array(seconds)

    assert ReversedFrames(Numbered()).at("front", [0.0, 1.0]).tolist() == [2.0, 1.0]
