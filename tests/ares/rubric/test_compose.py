"""The battery of an episode: false captions are never the truth, and every text has its family."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

import pytest

from ares.errors import RequestError
from ares.rubric import FAMILIES, KnownCaption, compose_attack_captions, read_paraphrases, shipped_paraphrases
from ares.rubric.attack_battery import read_hostile_captions

TASKS = sorted(shipped_paraphrases())
# Of the file as it was written before any judge was run on it.
PARAPHRASES = "b238fce0e965c3e24da47308a17d7aa089963c1d2ea17ca263e3bdf6be14419b"


def _truth(number: int, succeeded: bool | None = True) -> KnownCaption:
    return KnownCaption(episode_id=f"{number:016x}", phrase=TASKS[number], succeeded=succeeded)


OTHERS = [_truth(number) for number in range(len(TASKS))]


def _battery(truth: KnownCaption, seed: int = 0) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for text in compose_attack_captions(truth, OTHERS, shipped_paraphrases(), 3, seed):
        texts.setdefault(text.family, []).append(text.text)
    return texts


def test_the_paraphrases_are_those_of_before_the_first_run() -> None:
    content = files("ares.rubric").joinpath("attack_texts", "paraphrases.yaml").read_bytes()
    assert hashlib.sha256(content).hexdigest() == PARAPHRASES


def test_150_texts_are_written_by_hand() -> None:
    written = {
        text
        for texts in (*read_hostile_captions().values(), *shipped_paraphrases().values())
        for text in texts
    }
    assert len(written) >= 150


@pytest.mark.parametrize("succeeded", [True, False, None])
def test_no_false_caption_is_the_truth(succeeded: bool | None) -> None:
    for number in range(len(TASKS)):
        truth = _truth(number, succeeded)
        for family, texts in _battery(truth).items():
            if not FAMILIES[family].is_true and FAMILIES[family].frames == "none":
                assert truth.text not in texts, family


def test_every_family_but_that_of_the_same_task_has_texts() -> None:
    families = {family for number in range(len(TASKS)) for family in _battery(_truth(number))}
    assert families == set(FAMILIES) - {"other_episode_same_task"}


def test_after_a_failure_every_part_is_of_a_failure() -> None:
    texts = _battery(_truth(TASKS.index("push the green drawer closed"), succeeded=False))
    assert texts["exact_truth"] == ["fail to push the green drawer closed"]
    assert texts["flipped_outcome"] == ["push the green drawer closed"]
    assert all(text.startswith("fail to ") for text in (*texts["wrong_verb"], *texts["wrong_object"]))
    assert not {"dropped", "negated", "not_done"} & set(texts)


def test_without_an_outcome_none_is_flipped() -> None:
    assert "flipped_outcome" not in _battery(_truth(0, succeeded=None))


def test_one_part_is_replaced() -> None:
    texts = _battery(_truth(TASKS.index("pick up the lid and place it on the wooden box")))
    assert texts["third_person"] == ["The robot picks up the lid and places it on the wooden box."]
    assert all(text.endswith("and place it on the wooden box") for text in texts["wrong_object"])
    assert all(text.startswith("pick up the lid and place it ") for text in texts["wrong_destination"])
    assert texts["half_of_the_action"] == ["pick up the lid"]
    assert texts["verb_only"] == ["pick"]


def test_a_seed_repeats_a_battery_and_another_one_changes_it() -> None:
    assert _battery(_truth(3), seed=1) == _battery(_truth(3), seed=1) != _battery(_truth(3), seed=2)


def test_another_episode_of_the_task_lends_its_outcome() -> None:
    truth, other = _truth(0), KnownCaption(episode_id="f" * 16, phrase=TASKS[0], succeeded=False)
    texts = compose_attack_captions(truth, [other], {}, 2, 0)
    assert [text.text for text in texts if text.family == "other_episode_same_task"] == [other.text]


def test_a_text_of_one_word_or_none_is_no_problem() -> None:
    for phrase in ("push", "?", "the", "机器人"):
        truth = KnownCaption(episode_id="0", phrase=phrase, succeeded=True)
        assert compose_attack_captions(truth, [], {}, 2, 0)


def test_paraphrases_of_another_form_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("close the box: shut it")
    with pytest.raises(RequestError, match="has no list of texts, but 'shut it'"):
        read_paraphrases(path)
    path.write_text("close the box: [shut the box]")
    assert read_paraphrases(path) == {"close the box": ("shut the box",)}
