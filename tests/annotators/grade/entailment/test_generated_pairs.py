"""The pairs that the reference entailment model is trained on."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.entailment.bounds import choose_bounds
from benchmarks.entailment.labels import NOT_STATED, SLOTS
from benchmarks.entailment.lexicon import CONTRADICTED, ENTAILED, NEUTRAL, Lexicon, Reading
from benchmarks.entailment.pairs import PairMaker
from benchmarks.entailment.recasts import passive, recast, with_relative_source, without_articles
from benchmarks.entailment.rows import make_rows
from benchmarks.entailment.store import choose_pieces
from benchmarks.entailment.verb_forms import gerund, participle, past, third_person

_LEXICON = Lexicon()


def test_the_same_seed_makes_the_same_pairs() -> None:
    first, second, other = (PairMaker(_LEXICON, seed) for seed in (1, 1, 2))
    assert [first.pair() for _ in range(20)] == [second.pair() for _ in range(20)]
    assert [PairMaker(_LEXICON, 1).pair() for _ in range(5)] != [other.pair() for _ in range(5)]


def test_a_caption_without_a_change_contradicts_nothing() -> None:
    maker = PairMaker(_LEXICON, 3, has_unknown=False)
    for _ in range(300):
        pair = maker.pair(0)
        assert CONTRADICTED not in pair.labels, (pair.observed, pair.claimed, pair.labels)


def test_changes_contradict_or_leave_open() -> None:
    maker = PairMaker(_LEXICON, 4)
    pairs = [maker.pair(1) for _ in range(400)]
    worst = [min(pair.labels) for pair in pairs if pair.edits]
    assert worst.count(CONTRADICTED) > 100 and worst.count(NEUTRAL) > 40
    assert all(label in range(NOT_STATED + 1) for pair in pairs for label in pair.labels)
    assert all(len(pair.labels) == len(SLOTS) for pair in pairs)


def test_training_never_says_what_is_left_out() -> None:
    maker, reader = PairMaker(_LEXICON, 5), PairMaker(_LEXICON, 5, left_out="names")
    assert not any(maker.pair().caption.left_out for _ in range(300))
    said = {name for _ in range(600) for name in reader.pair().caption.left_out}
    assert said and said <= _LEXICON.left_out_names


def test_wider_and_narrower_words_are_not_the_same() -> None:
    assert _LEXICON.action_relation("place", "move") == ENTAILED
    assert _LEXICON.action_relation("move", "place") == NEUTRAL
    assert _LEXICON.action_relation("open", "close") == CONTRADICTED
    assert _LEXICON.thing_relation("mug", "apple") == CONTRADICTED
    assert _LEXICON.thing_relation("mug", "bowl") == NEUTRAL


def test_words_for_several_actions_are_entailed_only_by_all_of_them() -> None:
    def relation(seen: str, words: str, claim: str, claimed_words: str, thing: str = "cube") -> int:
        return _LEXICON.wording_relation(Reading(seen, words), Reading(claim, claimed_words), thing, False)

    assert relation("push", "~push O", "pull", "~pull O") == CONTRADICTED
    assert relation("push", "~push O", "move", "~move O") == ENTAILED
    assert relation("push", "~move O", "pull", "~pull O") == NEUTRAL
    assert relation("push", "~push O", "press", "~press O", "button") == ENTAILED, (
        "to push a button is to press it"
    )


def test_words_in_any_order_say_nothing_for_sure() -> None:
    rows = make_rows(400, 3)
    assert rows == make_rows(400, 3)
    heaps = [row for row in rows if row[1].split()[-1] in ("the", "a") and len(row[1].split()) > 4]
    assert heaps and all(row[2][-1] == NEUTRAL for row in heaps)


def test_bounds_are_where_few_wrong_ones_exceed_them() -> None:
    sure = np.linspace(0.0, 1.0, 101)
    logits = np.log(np.stack([1e-9 + sure, np.full(101, 1e-9), 1e-9 + 1.0 - sure], axis=1))
    # What is false is given as true with probabilities 0 to 1, and the other way round.
    bounds = choose_bounds(np.concatenate([logits, logits]), [CONTRADICTED] * 101 + [ENTAILED] * 101)
    assert bounds == {"accepted": pytest.approx(0.985), "refused": pytest.approx(0.985)}
    assert choose_bounds(logits[:1], [ENTAILED])["refused"] == 0.7, "never below what a verdict needs"


def test_verbs_are_bent_as_in_english() -> None:
    assert [third_person(verb) for verb in ("push", "carry", "go")] == ["pushes", "carries", "goes"]
    assert [gerund(verb) for verb in ("put", "slide", "open", "tie")] == [
        "putting",
        "sliding",
        "opening",
        "tying",
    ]
    assert [past(verb) for verb in ("drag", "take", "carry")] == ["dragged", "took", "carried"]
    assert participle("take") == "taken" and participle("press") == "pressed"


def test_a_wrong_verb_makes_an_equal_caption_false() -> None:
    maker, found = PairMaker(_LEXICON, 6, has_unknown=False), 0
    for _ in range(300):
        pair = maker.pair(1)
        if pair.edits == ("wrong verb",):
            found += 1
            assert pair.labels[SLOTS.index("verb")] == CONTRADICTED, (pair.observed, pair.claimed)
    assert found > 10


def test_captions_are_said_as_in_notes() -> None:
    words, dice = ["~push", "the", "red", "drawer", "shut"], random.Random(0)
    assert recast(words, "topic", dice) == "the red drawer , push shut"
    assert (
        " the red drawer " in (caused := recast(words, "caused", dice))
        and "shut " in caused
        and "push" in caused
    )
    assert "of the red drawer shut" in recast(words, "nominal", dice)
    assert recast(["~grab", "the", "lid", "and", "~lift", "it"], "topic", dice).startswith("the lid , grab ")
    two = ["~grab", "the", "lid", "and", "~lift", "it", "off"]
    assert passive(two, "is") == "the lid is grabbed and lifted off"
    assert passive(["~go", "home"], "is") == "", "nothing is acted on"
    assert without_articles("push the drawer in an instant") == "push drawer in instant"


def test_a_start_is_said_as_where_the_thing_is() -> None:
    parts = with_relative_source({"O": "the cube", "S": "out of the bin"}, "out", random.Random(1))
    assert parts["S"] == "" and parts["O"].startswith("the cube ") and parts["O"].endswith("the bin")


def test_names_that_nobody_knows_leave_open_what_is_meant() -> None:
    maker = PairMaker(_LEXICON, 8)
    labels = set()
    for _ in range(600):
        pair = maker.pair(0)
        seen, claim = pair.observed.split(), pair.claimed.split()
        strange = [word for word in _LEXICON.strange_names if word in claim and word not in seen]
        labels |= {pair.labels[SLOTS.index("additions")] for _ in strange}
    assert labels and ENTAILED not in labels


def test_pieces_of_an_earlier_model_keep_their_places() -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "lid", "mug"]
    first = choose_pieces(pieces, ["the lid"], 5)
    later = choose_pieces(pieces, ["the mug"], 5, first)
    assert later[: len(first)] == first and "mug" in later and "mug" not in first
