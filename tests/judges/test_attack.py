"""`ares rubric attack` on judges with known faults: ten batteries of false texts, and nothing stored."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ares.errors import RequestError
from ares.settings import Price, Settings
from ares.store import Stores
from ares.workspace import open_workspace
from ares_annotators.base import Options
from ares_annotators.grade import AttackRun, attack, run_attack
from ares_app.cli.main import main
from tests.ingesting import ingest_paths
from tests.judges.marked_frames import write_dataset
from tests.judges.parameters import JudgeParameters
from tests.judges.server import JudgeServer
from tests.judges.world import COMMON_SLOTS, WorldEpisode, WorldSettings, make_world, say
from tests.thinning import some_by_day

_EPISODES = 12
_TRUE = JudgeParameters()
_JUDGES = {
    "truthful": _TRUE,
    "yes-man": replace(_TRUE, compares="same", chooses="first", lenient=1.0),
    "flatterer": replace(_TRUE, chooses="not what it observed"),
    "gist": replace(_TRUE, compares="gist", chooses="gist"),
    "no-man": replace(_TRUE, observes="nothing", compares="different", chooses="other"),
}


@dataclass(frozen=True)
class Attacked:
    """A workspace whose instructions are true where the episode succeeded, and a server with the judges."""

    stores: Stores
    server: JudgeServer
    folder: Path

    def options(self, name: str) -> Options:
        """A judge, at a price."""
        settings = replace(self.stores.settings, price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0))
        return Options(settings=settings, model=self.server.judge_spec(name))

    def attack(self, name: str, where: str = "") -> AttackRun:
        """Attack a judge."""
        return run_attack(self.stores, self.options(name), where)


def _told_what_it_did(episode: WorldEpisode) -> WorldEpisode:
    told = {slot: value for slot, value in episode.truth.items() if slot not in ("hand", "manner", "count")}
    said = say(random.Random(0), {**told, "outcome": "completed"}, 0.0, is_plain=True)
    return replace(episode, instruction=said.sentence)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """Twelve episodes, every second one a failure."""
    folder = tmp_path_factory.mktemp("attacked")
    world = make_world(WorldSettings(seed=5, episodes=_EPISODES, stated=COMMON_SLOTS))
    episodes = [_told_what_it_did(episode) for episode in world]
    data = write_dataset(folder / "world", episodes, is_labelled=True)
    settings = Settings(openai_api_key="a-key")
    with (
        JudgeServer(folder, episodes, _JUDGES) as server,
        open_workspace(str(folder / "workspace"), settings) as workspace,
    ):
        ingest_paths(workspace.stores, [str(data)], quiet=True)
        yield Attacked(workspace.stores, server, folder)


def test_a_truthful_judge_refuses_every_kind_and_accepts_the_truth(attacked: Attacked) -> None:
    run = attacked.attack("truthful")
    (shown,) = run.datasets.values()
    assert {"other_episode", "action", "object", "place", "no_content", "note"} <= shown.kinds.keys()
    assert not run.broken and not run.failed
    assert {kind for kind, counts in shown.kinds.items() if counts.accepted} == set()
    assert (shown.true_captions.accepted, shown.true_captions.total) == (_EPISODES, _EPISODES)
    # Twelve captions offer fewer different texts of a kind than ten batteries want.
    assert sum(counts.total for counts in shown.kinds.values()) > 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    some_by_day([("flatterer", "object"), ("yes-man", "other_episode"), ("gist", "place")], rows=True),
)
def test_a_judge_with_a_fault_is_broken(attacked: Attacked, name: str, kind: str) -> None:
    run = attacked.attack(name)
    (shown,) = run.datasets.values()
    counts = shown.kinds[kind]
    assert run.broken and 2 * counts.accepted >= counts.total
    low, high = counts.bounds
    assert low <= counts.accepted / counts.total <= high


@pytest.mark.slow
def test_a_judge_that_accepts_no_true_caption_has_shown_nothing(attacked: Attacked) -> None:
    run = attacked.attack("no-man")
    (shown,) = run.datasets.values()
    assert shown.true_captions.accepted == 0 and run.broken


@pytest.mark.slow
def test_nothing_of_an_attack_is_stored_and_what_was_paid_is_not_paid_again(attacked: Attacked) -> None:
    first = attacked.attack("truthful")
    log, ids = attacked.stores.annotations, sorted(attacked.stores.tables.episodes.ids())
    assert not list(log.find_annotations(ids, ["grade", "control", "observation"]))
    assert not list(log.find_documents("judge_batteries")), "the run that comes later is tested"
    calls = len(attacked.server.calls("truthful"))
    second = attacked.attack("truthful")
    for name, shown in first.datasets.items():
        again = second.datasets[name]
        assert again == shown
    assert len(attacked.server.calls("truthful")) - calls == second.cost.calls <= 1


def test_as_many_are_drawn_as_asked_for_among_the_texts_that_hold_a_caption(
    attacked: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the texts are a mark alone, and so no caption: they take the place of no other."""
    ids = sorted(attacked.stores.tables.episodes.ids())
    texts = [(key, "..." if number % 2 else "open the drawer", None) for number, key in enumerate(ids)]
    monkeypatch.setattr(attack, "_read_instructions", lambda stores, where: iter(texts))
    drawn = attack.sample_true_captions(attacked.stores, "")
    assert sorted(subject.episode.episode_id for subject in drawn) == ids[::2]
    monkeypatch.setattr(attack, "_EPISODES", 5)
    assert (
        len({subject.episode.episode_id for subject in attack.sample_true_captions(attacked.stores, "")}) == 5
    )


@pytest.mark.slow
@pytest.mark.parametrize("where", ["num_steps < 0", "instruction = ''"])
def test_without_a_true_caption_there_is_no_attack(attacked: Attacked, where: str) -> None:
    with pytest.raises(RequestError, match="no episode has a true caption"):
        attacked.attack("truthful", where)


def test_a_budget_needs_a_price(attacked: Attacked) -> None:
    options = replace(attacked.options("truthful"), settings=attacked.stores.settings)
    with pytest.raises(RequestError, match="a budget needs a price"):
        run_attack(attacked.stores, options, budget_usd=1.0)


@pytest.mark.slow
def test_the_report_counts_by_kind_and_the_exit_status_tells_a_broken_judge(
    attacked: Attacked, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARES_OPENAI_API_KEY", "a-key")
    command = ["rubric", "attack", "-w", str(attacked.stores.path), "-q", "--model"]
    assert main([*command, attacked.server.judge_spec("truthful")]) == 0
    text = capsys.readouterr().out
    assert re.search(rf"true captions +{_EPISODES} +{_EPISODES} ", text)
    assert re.search(r"captions of other episodes +0 +\d+ +0.000-0.\d+", text)
    assert main([*command, attacked.server.judge_spec("yes-man"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["broken"] == ["world"]
