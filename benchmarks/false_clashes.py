"""How often two halves of one dataset are said to mean different things: generated datasets, and given ones.

python -m benchmarks.false_clashes --seeds 9000000:9000400
python -m benchmarks.false_clashes --data DATASET --splits 20
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ares.contract import (
    CONTRACT_EPISODES,
    Clash,
    ContractEvidence,
    DatasetKey,
    LayoutContract,
    collect_contract_evidence,
    find_clashes,
    infer_contract,
)
from ares.signals import EpisodeSignals
from benchmarks.quality import read_layouts, seed_range
from benchmarks.shares import format_share
from tests.generators.contracts import random_meaning

Names = tuple[tuple[str, ...], tuple[str, ...]]


def random_halves(count: int, splits: int) -> list[tuple[list[int], list[int]]]:
    """So many different splits of some episodes in two halves, or all where there are fewer."""
    halves: dict[frozenset[frozenset[int]], tuple[list[int], list[int]]] = {}
    for seed in range(10 * splits):
        order = np.random.default_rng(seed).permutation(count).tolist()
        first, second = order[: count // 2], order[count // 2 :]
        if len(halves) < splits:
            halves.setdefault(frozenset((frozenset(first), frozenset(second))), (first, second))
    return list(halves.values())


def clashes_of_halves(
    names: Names, evidence: Sequence[ContractEvidence], halves: tuple[list[int], list[int]]
) -> list[Clash]:
    """The clashes of the contracts of two halves of some episodes."""
    contracts = [
        LayoutContract(
            key=DatasetKey("made", half, ""),
            state_names=names[0],
            action_names=names[1],
            num_episodes=len(part),
            contract=infer_contract(half, *names, [evidence[n] for n in part[:CONTRACT_EPISODES]]),
        )
        for half, part in zip(("first", "second"), halves, strict=True)
    ]
    return find_clashes(contracts)


def evidence_of(episodes: Sequence[EpisodeSignals]) -> tuple[Names, list[ContractEvidence]]:
    """The names of the dimensions of some episodes of one robot, and the evidence of those that have any."""
    evidence = [
        collect_contract_evidence(part) for part in episodes if part.state.shape[1] or part.action.shape[1]
    ]
    names = (episodes[0].state_names, episodes[0].action_names)
    return names, [part for part in evidence if part is not None]


def print_generated(seeds: range) -> None:
    """One split of each generated dataset."""
    found: Counter[str] = Counter()
    total = hits = 0
    for seed in seeds:
        names, evidence = evidence_of(random_meaning(seed).episodes)
        if len(evidence) < 2:
            continue
        order = np.random.default_rng(seed).permutation(len(evidence)).tolist()
        middle = len(evidence) // 2
        clashes = clashes_of_halves(names, evidence, (order[:middle], order[middle:]))
        total, hits = total + 1, hits + bool(clashes)
        found.update(str(clash) for clash in clashes)
    text = f"generated {seeds.start}:{seeds.stop}: pairs with a clash {format_share(hits, total)}"
    print(text, *found.items(), sep="\n")


def main() -> None:
    """Print the share of the pairs with a clash, and which."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=seed_range, metavar="FIRST:STOP")
    parser.add_argument("--data", nargs="*", default=[], metavar="DATASET")
    parser.add_argument("--splits", type=int, default=20)
    args = parser.parse_args()
    if args.seeds:
        print_generated(args.seeds)
    total = hits = 0
    for path in args.data:
        for dataset, episodes in read_layouts(path):
            names, evidence = evidence_of(episodes)
            splits = random_halves(len(evidence), args.splits) if len(evidence) > 1 else []
            all_clashes = [clashes_of_halves(names, evidence, halves) for halves in splits]
            own = sum(map(bool, all_clashes))
            total, hits = total + len(all_clashes), hits + own
            counted = Counter(str(clash) for clashes in all_clashes for clash in clashes)
            print(
                f"{dataset} ({len(evidence)} episodes): {format_share(own, len(all_clashes))}", dict(counted)
            )
    if args.data:
        print(f"all: {format_share(hits, total)}")


if __name__ == "__main__":
    main()
