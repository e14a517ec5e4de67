"""What is printed: success by set with intervals, differences paired by start, and what ARES removed by fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.curation.pool import CLEAN, FAULTS, PoolEpisode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RESAMPLES = 10_000


def resampled_means(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean and 95 % interval of (tasks, seeds, starts) values: seeds, and starts within tasks, are drawn again.

    Seeds and starts are drawn each for all rows of the other, as a policy meets all starts, and a start all policies.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    tasks, seeds, starts = values.shape
    of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), _RESAMPLES) / seeds
    of_starts = rng.multinomial(starts, np.full(starts, 1 / starts), (_RESAMPLES, tasks)) / starts
    means = np.einsum("tsn,rs,rtn->r", values, of_seeds, of_starts, optimize=True) / tasks
    low, high = np.quantile(means, [0.025, 0.975])
    return float(values.mean()), float(low), float(high)


def success_table(
    successes: Mapping[str, NDArray[np.float64]], tasks: Sequence[str], sizes: Mapping[str, str]
) -> str:
    """A row for each set.

    Args:
        successes: (tasks, seeds, starts) by the name of the set.
        tasks: Their names.
        sizes: Episodes of each set, in words.
    """
    lines = [f"| set | episodes | success | {' | '.join(tasks)} |", "|---" * (3 + len(tasks)) + "|"]
    for name, values in successes.items():
        shares = " | ".join(f"{share:.2f}" for share in values.mean(axis=(1, 2)))
        lines.append(f"| {name} | {sizes[name]} | {_interval_text(values, '.3f')} | {shares} |")
    return "\n".join(lines)


def difference_lines(successes: Mapping[str, NDArray[np.float64]], name: str, others: Sequence[str]) -> str:
    """The difference of a set to each of some others, by the same seeds and starts."""
    return "\n".join(
        f"{name} minus {other}: {_interval_text(successes[name] - successes[other], '+.3f')}"
        for other in others
    )


def _interval_text(values: NDArray[np.float64], form: str) -> str:
    mean, low, high = resampled_means(values)
    return f"{mean:{form}} ({low:{form}} to {high:{form}})"


def removal_table(
    episodes: Sequence[PoolEpisode], kept: Collection[int], found: Mapping[int, Sequence[str]]
) -> str:
    """A row for each fault with how many episodes were removed and by what, then precision and recall."""
    lines = ["| fault | episodes | removed | findings |", "|---|---|---|---|"]
    for fault in (*FAULTS, CLEAN):
        members = [episode for episode in episodes if episode.fault == fault]
        removed = [episode for episode in members if episode.number not in kept]
        codes = Counter(code for episode in removed for code in set(found[episode.number]))
        words = ", ".join(f"{code} {count}" for code, count in codes.most_common())
        lines.append(f"| {fault} | {len(members)} | {len(removed)} | {words} |")
    removed_faults = [episode.fault != CLEAN for episode in episodes if episode.number not in kept]
    right, faulty = sum(removed_faults), sum(episode.fault != CLEAN for episode in episodes)
    lines.append("")
    lines.append(
        f"removed: precision {_share_text(right, len(removed_faults))}, recall {_share_text(right, faulty)}"
    )
    return "\n".join(lines)


def _share_text(part: int, whole: int) -> str:
    return f"{part}/{whole} = {part / whole:.2f}" if whole else "0/0"
