"""SignalChange: one value, or one span of values, of a signal with what it was and what it becomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ares.episode import Signal
from ares.errors import SourceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalChange:
    """New values of one dimension of an episode.

    Attributes:
        code: Code of the check whose finding it corrects.
        signal: "state" or "action".
        dimension: Name of the dimension.
        number: Number of the dimension in the signal.
        step: The first step that changes.
        num_steps: Steps that change; all of a span by the same difference.
        seconds: When the first is, from the start of the episode.
        old: Its value; None where that is not finite.
        new: Its new value, as float32 holds it.
    """

    code: str
    signal: str
    dimension: str
    number: int
    step: int
    num_steps: int
    seconds: float
    old: float | None
    new: float

    def to_json(self) -> dict[str, Json]:
        """The change as JSON."""
        stated = asdict(self)
        del stated["number"]
        stated["steps"] = stated.pop("num_steps")
        return stated


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What is done about the findings of one code in one dimension of an episode.

    Attributes:
        code: Code of the check.
        signal: "state" or "action".
        dimension: Name of the dimension.
        seconds: When the first finding is, from the start of the episode.
        changes: The changes; () where it is left as it is.
        left: Why it is left, or "".
    """

    code: str
    signal: str
    dimension: str
    seconds: float
    changes: tuple[SignalChange, ...] = ()
    left: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRepair:
    """The corrections of one episode.

    Attributes:
        episode_id: Id of the episode, as in a workspace.
        key: Split and key of the episode in its source, joined by "/".
        location: File, and which record of it.
        corrections: What was changed, and what was left, of the codes that can be corrected.
    """

    episode_id: str
    key: str
    location: str
    corrections: tuple[Correction, ...]

    @property
    def changes(self) -> tuple[SignalChange, ...]:
        """All changes, in the order in which they are applied."""
        return tuple(change for correction in self.corrections for change in correction.changes)


class SignalDimension(NamedTuple):
    """One dimension of a signal.

    Attributes:
        signal: "state" or "action".
        name: Its name.
        number: Its number in the signal.
    """

    signal: str
    name: str
    number: int


def make_signal_change(
    code: str,
    dimension: SignalDimension,
    span: tuple[int, int],
    seconds: NDArray[np.float64],
    old: float,
    new: float,
) -> SignalChange:
    """A change of the steps [first, stop) of a dimension; old and new value are of the first."""
    import numpy as np

    return SignalChange(
        code=code,
        signal=dimension.signal,
        dimension=dimension.name,
        number=dimension.number,
        step=span[0],
        num_steps=span[1] - span[0],
        seconds=round(float(seconds[span[0]]), 6),
        old=float(old) if np.isfinite(old) else None,
        new=float(np.float32(new)),
    )


def apply_signal_changes(
    values: NDArray[np.floating], changes: Iterable[SignalChange]
) -> NDArray[np.floating]:
    """A copy of a signal (T, D) with its changes.

    Raises SourceError where a value is not the one that was to be changed.
    """
    values = values.copy()
    for change in changes:
        span = slice(change.step, change.step + change.num_steps)
        _check_old(values, change)
        if change.num_steps == 1 or change.old is None:
            values[span, change.number] = change.new
        else:
            values[span, change.number] += values.dtype.type(change.new - change.old)
    return values


def _check_old(values: NDArray[np.floating], change: SignalChange) -> None:
    import numpy as np

    is_inside = change.number < values.shape[1] and change.step + change.num_steps <= len(values)
    old = float(values[change.step, change.number]) if is_inside else float("nan")
    is_same = not np.isfinite(old) if change.old is None else bool(np.float32(old) == np.float32(change.old))
    if not (is_inside and is_same):
        detail = f"{change.signal}.{change.dimension} at {change.seconds:g} s is {old:g}, not {change.old}"
        raise SourceError("the episode has changed since it was checked", detail)


def changed_trajectory(trajectory: Trajectory, changes: Sequence[SignalChange]) -> Trajectory:
    """The signals of an episode with its changes. Raises SourceError where they are of other values."""
    signals = {"state": trajectory.state, "action": trajectory.action}
    for name, signal in signals.items():
        of_signal = [change for change in changes if change.signal == name]
        if of_signal:
            if signal is None:
                raise SourceError("the episode has changed since it was checked", f"it has no {name}")
            signals[name] = Signal(apply_signal_changes(signal.values, of_signal), signal.names)
    return replace(trajectory, state=signals["state"], action=signals["action"])
