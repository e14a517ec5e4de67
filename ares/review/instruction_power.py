"""What the instruction audit can tell of a dataset: how many instructions that were exchanged on purpose it names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ares.review.instruction_model import InstructionFits, LabelledRows, fit_instructions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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

    A small dataset is done in several rounds, so that each leaves nine of ten instructions as they are.

    Args:
        rows: The episodes.
        fits: How well the instructions fit them as they are.
    """
    import numpy as np

    rng, power = np.random.default_rng(0), AuditPower()
    seems_right = rows.is_counted & ~fits.is_named()
    pairs = max(1, int(min(_PLANTED, _SHARE_AT_ONCE * seems_right.sum()) / 2))
    while power.planted < _PLANTED:
        exchanged = _draw_exchange(rows, fits, seems_right, min(pairs, (_PLANTED - power.planted) // 2), rng)
        if not len(exchanged):
            return power
        labels = rows.labels.copy()
        labels[exchanged] = rows.labels[exchanged[:, ::-1]]
        named = fit_instructions(replace(rows, labels=labels)).is_named()
        others = seems_right.copy()
        others[exchanged] = False
        power = AuditPower(
            planted=power.planted + exchanged.size,
            detected=power.detected + int(named[exchanged].sum()),
            others=power.others + int(others.sum()),
            named=power.named + int(named[others].sum()),
        )
    return power


def _draw_exchange(
    rows: LabelledRows,
    fits: InstructionFits,
    seems_right: NDArray[np.bool_],
    count: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """(P, 2) rows of at most `count` pairs of different tasks; a text without a class is a task of its own."""
    import numpy as np

    classes = fits.classes[rows.labels]
    tasks = np.where(classes >= 0, classes, len(fits.sizes) + rows.labels)
    is_free, pairs = seems_right.copy(), list[tuple[int, int]]()
    for first in rng.permutation(np.flatnonzero(seems_right)):
        if len(pairs) == count:
            break
        if not is_free[first]:
            continue
        partners = np.flatnonzero(is_free & (tasks != tasks[first]))
        if not len(partners):
            break  # all that are left are of one task
        second = rng.choice(partners)
        is_free[[first, second]] = False
        pairs.append((int(first), int(second)))
    return np.array(pairs, np.int64).reshape(-1, 2)
