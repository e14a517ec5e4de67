"""Measures an entailment model by the protocol in protocol.md: `python -m benchmarks.entailment.measure`."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence

from annotators.grade.entailment import EntailmentModel, PairEntailment, load_reference, read_reference
from ares.rubric import is_stated, parse_caption, slot_matches, wilson_bounds
from ares.rubric.attacks import shipped_paraphrases
from benchmarks.entailment.labels import NOT_STATED, SLOTS
from benchmarks.entailment.lexicon import CONTRADICTED, ENTAILED, Lexicon
from benchmarks.entailment.pairs import Pair, PairMaker

_MET, _UNMET = 0.6, 0.3
_ESSENTIAL = ("verb", "object", "destination", "attributes", "direction", "additions", "complete")
_OPTIONAL = ("object", "destination", "attributes", "direction")
_COUNT = 1_000
_SEED = 20261124
_DECISIONS = ("accepted", "unsure", "refused")


def main() -> None:
    """Print the table of every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="", help="file of a model; default: the one that comes with ARES")
    parser.add_argument(
        "--sets", default="known,a1,a2", help="known, a1, a2, b, c; b and c are to be read once"
    )
    args = parser.parse_args()
    model = read_reference(args.model) if args.model else load_reference()
    chosen = args.sets.split(",")
    for name, left_out in (("known", "never"), ("a1", "names"), ("a2", "patterns")):
        if name in chosen:
            _measure_generated(model, name, left_out)
    texts = shipped_paraphrases()
    if "b" in chosen:
        _report("b, true", decide(model, [(phrase, text) for phrase, own in texts.items() for text in own]))
        _report(
            "b, true, tables alone",
            decide(None, [(phrase, text) for phrase, own in texts.items() for text in own]),
        )
    if "c" in chosen:
        dice = random.Random(_SEED)
        pairs = [
            (other, text)
            for phrase, own in texts.items()
            for text in own
            for other in dice.sample([other for other in texts if other != phrase], 3)
        ]
        _report("c, false", decide(model, pairs))


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
        if slot in _ESSENTIAL and label != NOT_STATED
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
    slots = [slot for slot in _ESSENTIAL if slot not in _OPTIONAL or is_stated(slot, claim)]
    open_slots = [answer.slot(slot) for slot in slots if not slot_matches(slot, claim, seen)]
    if claim.is_negated or any(entailment.contradicted > 1.0 - _UNMET for entailment in open_slots):
        return "refused"
    if all(entailment.entailed >= _MET for entailment in open_slots):
        return "accepted" if answer.outcome.get(claim.outcome, 1.0) >= 0.5 else "unsure"
    return "unsure"


def _report(name: str, decisions: Sequence[str]) -> None:
    counts, total = Counter(decisions), len(decisions)
    cells = []
    for decision in _DECISIONS:
        low, high = wilson_bounds(counts[decision], total)
        share = counts[decision] / max(total, 1)
        cells.append(f"{decision} {counts[decision]} = {share:.3f} ({low:.3f}-{high:.3f})")
    print(f"{name}, {total}: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
