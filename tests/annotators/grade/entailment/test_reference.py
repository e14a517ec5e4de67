"""The reference entailment model: what it accepts and refuses, and what it leaves open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from annotators.grade.entailment import PairEntailment, load_reference, read_reference
from annotators.grade.entailment.words import PieceSplitter

_SLOTS = ("verb", "object", "destination", "additions", "complete")


def _compare(observed: str, claimed: str) -> PairEntailment:
    return load_reference().compare([(observed, claimed)], [_SLOTS])[0]


@pytest.mark.parametrize(
    ("observed", "claimed"),
    [
        ("close the drawer", "The robot shuts the drawer."),
        ("put the apple in the bowl", "place the apple inside the bowl"),
        ("pick up the mug", "a robotic arm is lifting the cup"),
    ],
)
def test_other_words_for_the_same_are_entailed(observed: str, claimed: str) -> None:
    answer = _compare(observed, claimed)
    assert min(answer.slot(slot).entailed for slot in ("verb", "object", "additions", "complete")) > 0.6
    assert answer.outcome["success"] > 0.6


@pytest.mark.parametrize(
    ("observed", "claimed", "slot"),
    [
        ("close the drawer", "the robot wipes the table", "additions"),
        ("put the apple in the bowl", "close the drawer", "complete"),
        ("close the drawer", "close the drawer and wipe the table", "additions"),
    ],
)
def test_something_else_is_contradicted(observed: str, claimed: str, slot: str) -> None:
    answer = _compare(observed, claimed)
    assert answer.slot(slot).contradicted > 0.5
    assert answer.slot(slot).entailed < 0.2


@pytest.mark.parametrize("word", ["blorp", "zugazim", "frobnicator", "kelvorit"])
def test_a_word_that_it_does_not_know_is_open(word: str) -> None:
    for observed, claimed in (
        ("pick up the mug", f"pick up the {word}"),
        ("put the apple in the bowl", f"put the {word} in the bowl"),
    ):
        answer = _compare(observed, claimed).slot("object")
        assert answer.contradicted < 0.7 and answer.entailed < 0.6


def test_the_same_unknown_word_is_known_again() -> None:
    assert _compare("pick up the blorp", "lifting the blorp").slot("object").entailed > 0.6


def test_a_failure_is_read_where_the_caption_states_one() -> None:
    assert _compare("close the drawer", "the robot fails to close the drawer").outcome["success"] < 0.5
    assert (
        _compare("close the drawer", "the robot gives up trying to close the drawer").outcome["success"] < 0.5
    )


def test_an_answer_does_not_depend_on_what_else_is_compared() -> None:
    pair, other = (
        ("open the box", "the box is opened"),
        ("push the cube", "put the cube in the very large bin"),
    )
    alone = load_reference().probabilities([pair])
    among = load_reference().probabilities([other, pair, other])
    for name, table in alone.items():
        np.testing.assert_allclose(table[0], among[name][1], atol=1e-5)


@pytest.mark.parametrize("text", ["", "...", "\u2603", "word " * 500])
def test_any_text_can_be_compared(text: str) -> None:
    answer = _compare("close the drawer", text)
    assert all(0.0 <= answer.slot(slot).entailed <= 1.0 for slot in _SLOTS)
    assert _compare(text, "close the drawer").slot("verb").entailed <= 1.0


def test_numpy_computes_what_was_trained(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from benchmarks.entailment.batches import BatchMaker
    from benchmarks.entailment.network import Encoder, Network
    from benchmarks.entailment.rows import HEADS
    from benchmarks.entailment.store import write_model

    torch.manual_seed(0)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "close", "drawer", "robot", "shut", "##s", "lid"]
    network = Network(Encoder(len(pieces), 2, width=24), HEADS, width=24).eval()
    path = tmp_path / "model.safetensors"
    state = {name: value.numpy() for name, value in network.state_dict().items()}
    write_model(path, state, pieces, [1.0] * len(HEADS), {"accepted": 0.9, "refused": 0.9})
    model = read_reference(str(path))
    network.load_state_dict({name: torch.from_numpy(value) for name, value in model.weights.items()})
    pairs = [("close the drawer", "the robot shuts the drawer"), ("close the lid", "the robot, xyzzy")]
    with torch.no_grad():
        logits = network(BatchMaker(pieces).batch(pairs))
    for name, table in model.probabilities(pairs).items():
        expected = torch.softmax(logits[name].double(), dim=-1).numpy()
        np.testing.assert_allclose(table, expected, atol=2e-4)


def test_words_are_split_into_the_longest_known_pieces() -> None:
    splitter = PieceSplitter(["[UNK]", "the", "ham", "hammer", "##er", "##s", "##mer"])
    text = splitter.split("The hammers, HAMMER")
    assert text.pieces == (1, 3, 5, 0, 3)
    assert text.stems[1] == text.stems[2] == text.stems[4], "any form of a word is that word"
