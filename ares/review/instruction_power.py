"""What the instruction audit can tell of a dataset: how many instructions that were exchanged on purpose it names."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ares.review.instruction_model import InstructionFits, LabelledRows, fit_instructions

# Episodes whose instruction is exchanged in all, and the share of a dataset for which that is done at once.
_PLANTED, _SHARE_AT_ONCE = 20, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPower:
    """How an audit does on exchanged instructions of its dataset.

    Attributes:
        planted: Episodes that got the instruction of an episode of another task.
        detected: Those that are named then.
        others: Episodes that kept their instruction and are not named without an exchange, summed over the rounds.
        named: Those that are named then.
    """

    planted: int = 0
    detected: int = 0
    others: int = 0
    named: int = 0

    @property
    def is_enough(self) -> bool:
        """Whether at least half of what was planted is found."""
        return self.planted > 0 and 2 * self.detected >= self.planted

    def __str__(self) -> str:
        return f"found {self.detected} of {self.planted} planted exchanges, named {self.named} of {self.others} others"


def measure_power(rows: LabelledRows, fits: InstructionFits) -> AuditPower:
    """Exchange instructions of some episodes that seem right, fit anew, and count which are named.

    A small dataset is done in several rounds, so that each leaves nine of ten instructions as they are. An exchange is
    between two tasks; a text without a class is a task of its own.

    Args:
        rows: The episodes.
        fits: How well the instructions fit them as they are.
    """
    import numpy as np

    rng, power = np.random.default_rng(0), AuditPower()
    seems_right, classes = rows.is_counted & ~fits.is_named, fits.classes[rows.labels]
    tasks = np.where(classes >= 0, classes, fits.count + rows.labels)
    most = max(1, int(min(_PLANTED, _SHARE_AT_ONCE * seems_right.sum()) / 2))
    for _ in range(_PLANTED):
        drawn = rng.permutation(np.flatnonzero(seems_right))
        pairs = drawn[: len(drawn) // 2 * 2].reshape(-1, 2)
        is_exchange = tasks[pairs[:, 0]] != tasks[pairs[:, 1]]
        exchanged = pairs[is_exchange][: min(most, (_PLANTED - power.planted) // 2)]
        if not len(exchanged):
            continue
        labels = rows.labels.copy()
        labels[exchanged] = rows.labels[exchanged[:, ::-1]]
        named = fit_instructions(replace(rows, labels=labels), fits.clear_ratio).is_named
        others = seems_right.copy()
        others[exchanged] = False
        power = AuditPower(
            planted=power.planted + exchanged.size,
            detected=power.detected + int(named[exchanged].sum()),
            others=power.others + int(others.sum()),
            named=power.named + int(named[others].sum()),
        )
    return power
