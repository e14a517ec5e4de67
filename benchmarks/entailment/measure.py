"""Measures an entailment model by the protocol in protocol.md: `python -m benchmarks.entailment.measure`."""

from __future__ import annotations

import argparse
import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from annotators.grade.entailment import EntailmentModel, PairEntailment, load_reference, read_reference
from annotators.grade.word_order import is_out_of_order
from ares.rubric import contradicts, is_stated, parse_caption, slot_matches
from ares.rubric.attacks import read_paraphrases, shipped_paraphrases
from ares.statistics import wilson_interval
from benchmarks.entailment.labels import ESSENTIAL, NOT_STATED, SLOTS
from benchmarks.entailment.lexicon import CONTRADICTED, ENTAILED, Lexicon
from benchmarks.entailment.pairs import Pair, PairMaker

_MET, _UNMET = 0.6, 0.3
_OPTIONAL = ("object", "destination", "attributes", "direction")
_COUNT = 1_000
_SEED = 20261124
_DECISIONS = ("accepted", "unsure", "refused")


def main() -> None:
    """Print the table of every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="", help="file of a model; default: the one that comes with ARES")
    parser.add_argument(
        "--sets",
        default="development,known",
        help="development, known, a1, a2, b, c, d, e, g, h; see protocol.md",
    )
    parser.add_argument("--blind", type=Path, help="file of the paraphrases of sets d and e, or g and h")
    args = parser.parse_args()
    model = read_reference(args.model) if args.model else load_reference()
    chosen = args.sets.split(",")
    if "development" in chosen:
        _measure_development(model)
    for name, left_out in (("known", "never"), ("a1", "names"), ("a2", "patterns")):
        if name in chosen:
            _measure_generated(model, name, left_out)
    if {"b", "c"} & set(chosen):
        _measure_paraphrases(model, shipped_paraphrases(), "b" in chosen and "b", "c" in chosen and "c")
    for own, foreign in (("d", "e"), ("g", "h")):
        if {own, foreign} & set(chosen):
            if args.blind is None:
                parser.error(f"set {own} needs --blind FILE")
            print("SHA-256:", hashlib.sha256(args.blind.read_bytes()).hexdigest())
            texts = read_paraphrases(args.blind)
            _measure_paraphrases(model, texts, own in chosen and own, foreign in chosen and foreign)


def _measure_development(model: EntailmentModel) -> None:
    groups = yaml.safe_load(Path(__file__).with_name("development.yaml").read_text("utf-8"))
    same = {group["seen"]: group["same"] for group in groups}
    _measure_paraphrases(model, same, "development", "development, others")
    near = [(group["seen"], text) for group in groups for text in group["other"]]
    _report("development, near misses", decide(model, near))


def _measure_paraphrases(
    model: EntailmentModel, texts: Mapping[str, Sequence[str]], own: str | bool, foreign: str | bool
) -> None:
    """Captions against what they paraphrase, and each against three other captions."""
    if own:
        pairs = [(phrase, text) for phrase, texts_of_it in texts.items() for text in texts_of_it]
        _report(f"{own}, true", decide(model, pairs))
        _report(f"{own}, true, tables alone", decide(None, pairs))
    if foreign:
        dice = random.Random(_SEED)
        pairs = [
            (other, text)
            for phrase, texts_of_it in texts.items()
            for text in texts_of_it
            for other in dice.sample([other for other in texts if other != phrase], 3)
        ]
        _report(f"{foreign}, false", decide(model, pairs))


def _measure_generated(model: EntailmentModel, name: str, left_out: str) -> None:
    lexicon = Lexicon()
    maker = PairMaker(lexicon, _SEED, left_out=left_out, has_unknown=False)
    pairs: list[Pair] = []
    while len(pairs) < 2 * _COUNT:
        pair = maker.pair(len(pairs) % 2)
        caption = pair.caption
        is_plain = caption.outcome == "success" and not caption.is_negated and caption.actor == "robot"
        if is_plain and (left_out == "never" or caption.left_out):
            pairs.append(pair)
    decisions = decide(model, [(pair.observed, pair.claimed) for pair in pairs])
    for truth in ("true", "neutral", "false"):
        own = [decision for pair, decision in zip(pairs, decisions, strict=True) if _truth(pair) == truth]
        _report(f"{name}, {truth}", own)
    wrong = Counter(
        next(iter(pair.edits), "")
        for pair, decision in zip(pairs, decisions, strict=True)
        if _truth(pair) == "false" and decision == "accepted"
    )
    print("  false ones that were accepted, by what is wrong:", dict(wrong))


def _truth(pair: Pair) -> str:
    labels = [
        label
        for slot, label in zip(SLOTS, pair.labels, strict=True)
        if slot in ESSENTIAL and label != NOT_STATED
    ]
    if CONTRADICTED in labels:
        return "false"
    return "true" if min(labels) == ENTAILED else "neutral"


def decide(model: EntailmentModel | None, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Accepted, refused or unsure, for pairs (observed, caption), as by a judge who is sure of what it saw."""
    answers = model.compare(pairs, [SLOTS] * len(pairs)) if model else [PairEntailment(slots={})] * len(pairs)
    return [
        _decide(answer, *pair)
        for answer, pair in zip(answers, pairs, strict=True)
        if isinstance(answer, PairEntailment)
    ]


def _decide(answer: PairEntailment, observed: str, claimed: str) -> str:
    seen, claim = parse_caption(observed), parse_caption(claimed)
    slots = [slot for slot in ESSENTIAL if slot not in _OPTIONAL or is_stated(slot, claim)]
    open_slots = [slot for slot in slots if not slot_matches(slot, claim, seen)]
    if is_out_of_order(claim, [seen]) and open_slots:
        return "unsure"
    if claim.is_negated or any(
        contradicts(slot, claim, seen) or answer.slot(slot).contradicted > 1.0 - _UNMET for slot in open_slots
    ):
        return "refused"
    if all(answer.slot(slot).entailed >= _MET for slot in open_slots):
        return "accepted" if answer.outcome.get(claim.outcome, 1.0) >= 0.5 else "unsure"
    return "unsure"


def _report(name: str, decisions: Sequence[str]) -> None:
    counts, total = Counter(decisions), len(decisions)
    cells = []
    for decision in _DECISIONS:
        low, high = wilson_interval(counts[decision], total)
        share = counts[decision] / max(total, 1)
        cells.append(f"{decision} {counts[decision]} = {share:.3f} ({low:.3f}-{high:.3f})")
    print(f"{name}, {total}: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
