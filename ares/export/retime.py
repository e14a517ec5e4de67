"""Which steps of an episode an export writes at which rate, with the camera frames that belong to them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from ares.clock import LEAST_RATE_SPREAD, camera_seconds, nearest_steps, time_tolerance
from ares.episode import Camera, Episode, Json, Signal, Span, Trajectory
from ares.errors import SourceError
from ares.export.base import ExportRate, RetimeMode
from ares.media import all_frames, frames_at, verify_source
from ares.store import ids_filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.export.run import ExportReader


_RATE_TOLERANCE = 1e-6
# Television rates such as 29.97 Hz are a whole number times 1000 / 1001.
_TELEVISION_RATES = {whole: whole * 1000 / 1001 for whole in (24, 30, 48, 60, 120)}
_TELEVISION_TOLERANCE = 2e-4
_MAX_STEPS = 10_000_000
# Five minutes at 30 Hz between two steps, in the mean, are a jump of the clock.
_MOST_EXPORTED_PER_STEP = 10_000
# A span of fewer steps shows no motion.
_LEAST_STEPS = 2
# Measured rates are joined where they differ by no more than the spread of their periods or LEAST_RATE_SPREAD, and by
# no more than this share: beyond it the same step is too far from its second.
_LARGEST_SPREAD = 0.05
_RATE_COLUMNS = ("rate_hz", "rate_source", "rate_spread", "num_steps")
_BATCH_IDS = 10_000


@dataclass(frozen=True, eq=False)
class RetimedEpisode:
    """An episode as an export writes it.

    Attributes:
        source: The episode as it is stored.
        episode: The episode with the number of steps and the rate that are written.
        trajectory: The signals that are written, at even times.
        stamps: (T,) stamps of the stored steps.
        steps: (N,) the stored step of each written one.
        shift_seconds: Largest difference between the stamp of a step and the second at which it is written.
        kept: The stored steps of the part that is written, all of them for a whole episode.
        is_cut: Whether steps at the start or the end are left out.
    """

    source: Episode
    episode: Episode
    trajectory: Trajectory
    stamps: NDArray[np.float64]
    steps: NDArray[np.int64]
    shift_seconds: float
    kept: range
    is_cut: bool

    @property
    def reaches_end(self) -> bool:
        """Whether the part goes to the end of the episode."""
        return self.kept.stop == self.source.num_steps

    @cached_property
    def keeps_rate(self) -> bool:
        """Whether every stored step of the part is written, once and in order."""
        import numpy as np

        return np.array_equal(self.steps, np.arange(self.kept.start, self.kept.stop))

    @cached_property
    def keeps_steps(self) -> bool:
        """Whether every stored step is written, once and in order."""
        import numpy as np

        return np.array_equal(self.steps, np.arange(self.source.num_steps))

    def camera_seconds(self, camera: Camera) -> list[float]:
        """The seconds at which `frames_at` has the frame of each written step."""
        return camera_seconds(self.source, camera, self.stamps[self.steps].tolist(), lambda: self.stamps)

    @cached_property
    def keeps_times(self) -> bool:
        """Whether each second of the stored episode is the same second of the written one."""
        return self.keeps_steps and self.shift_seconds <= time_tolerance(self.episode.rate_hz)

    def written_seconds(self, seconds: float) -> float:
        """The second of the written episode for one of the stored episode, on its clock or between two of its steps."""
        if self.keeps_times or not self._written_stamps:
            return seconds
        import numpy as np

        stamps = self._written_stamps
        times = np.arange(len(stamps)) / self.episode.rate_hz
        beyond = max(0.0, seconds - stamps[-1]) - max(0.0, stamps[0] - seconds)
        return max(0.0, float(np.interp(seconds, stamps, times)) + beyond)

    def steps_of_span(self, start_seconds: float, stop_seconds: float) -> range:
        """The written steps whose stamps lie in a span [start, stop) of the stored episode."""
        tolerance = time_tolerance(self.source.rate_hz)
        first = bisect_left(self._written_stamps, start_seconds - tolerance)
        return range(first, max(first, bisect_left(self._written_stamps, stop_seconds - tolerance)))

    @cached_property
    def _written_stamps(self) -> list[float]:
        """(N,) stamps of the written steps; where they fall, the largest so far."""
        import numpy as np

        stamps: list[float] = np.maximum.accumulate(self.stamps[self.steps]).tolist()
        return stamps


@dataclass(frozen=True, eq=False)
class CutRecord:
    """A part of an episode as a separate episode, whose cameras are still those of the whole one.

    Attributes:
        episode: The part; its hash is unknown, and its success where it does not stand for the whole.
        trajectory: Its signals, at seconds from its start.
        stamps: (T,) stamps of all stored steps.
        kept: The stored steps of the part.
    """

    episode: Episode
    trajectory: Trajectory
    stamps: NDArray[np.float64]
    kept: range


def cut_record(episode: Episode, trajectory: Trajectory, span: Span) -> CutRecord:
    """The steps of an episode whose stamps lie in a span [start, stop).

    Raises:
        SourceError: The span is not within the episode, or has fewer than two steps.
    """
    import numpy as np

    stamps, start_seconds, stop_seconds = trajectory.timestamps, span.start_seconds, span.stop_seconds
    if not np.isfinite(stamps).all() or len(stamps) != episode.num_steps:
        stamps = np.arange(episode.num_steps) / episode.rate_hz
    text = f"{start_seconds:g} to {stop_seconds:g} s"
    slack, tolerance = 1 / episode.rate_hz, time_tolerance(episode.rate_hz)
    end = max(episode.duration_seconds, float(stamps.max(initial=0.0)) + slack)
    if not (-tolerance <= start_seconds < end and stop_seconds <= end + slack + tolerance):
        raise SourceError("the span is not within its episode", f"{text} of {end:g} s")
    inside = (stamps >= start_seconds - tolerance) & (stamps < stop_seconds - tolerance)
    steps = np.flatnonzero(inside)
    kept = range(int(steps[0]), int(steps[-1]) + 1) if len(steps) else range(0)
    if len(kept) < _LEAST_STEPS:
        raise SourceError("the span has fewer than two steps", f"{text} of {end:g} s has {len(kept)}")
    if len(kept) == episode.num_steps:
        return CutRecord(episode, trajectory, stamps, kept)
    part_stamps = stamps[kept.start : kept.stop] - stamps[kept.start]
    is_even = _is_even(part_stamps, episode.rate_hz)
    part = replace(
        episode,
        num_steps=len(kept),
        content_hash="",
        success=episode.success if span.stands_for_episode else None,
        success_source=episode.success_source if span.stands_for_episode else "",
        stamped_duration_seconds=None if is_even else float(part_stamps.max()) + slack,
    )
    return CutRecord(part, _at_steps(trajectory, np.arange(kept.start, kept.stop), part_stamps), stamps, kept)


def describe_part(span: Span, kept: range, steps: int) -> dict[str, Json]:
    """Where a written part lies in its source, in seconds and in steps [start, stop), and how many steps it became."""
    override = {"annotation_id": ""} if span.stands_for_episode else {}
    source_steps: list[Json] = [kept.start, kept.stop]
    return {**span.to_json(), **override, "source_steps": source_steps, "steps": steps}


def check_exportable(episode: Episode, trajectory: Trajectory) -> None:
    """Check that an episode has finite signals of the right shape and unchanged sources; raises AresError if not."""
    import numpy as np

    if episode.num_steps < 1:
        raise SourceError("the episode has no steps")
    signals = (
        ("state", trajectory.state, episode.state_names),
        ("action", trajectory.action, episode.action_names),
    )
    for name, signal, names in signals:
        shape = signal.values.shape if signal else (episode.num_steps, 0)
        if shape != (episode.num_steps, len(names)):
            raise SourceError(
                f"the {name} has a wrong shape", f"{shape}, not {(episode.num_steps, len(names))}"
            )
    numbers = {name: signal.values for name, signal, _ in signals if signal} | {"reward": trajectory.reward}
    for name, values in numbers.items():
        if values is not None and not np.isfinite(values).all():
            raise SourceError(
                f"the {name} holds values that are not finite", "training on it would yield NaN"
            )
    for camera in episode.cameras:
        verify_source(camera.media)


def retime_episode(
    episode: Episode, trajectory: Trajectory, clock: ExportRate, span: Span | None = None
) -> RetimedEpisode:
    """The episode, or a span of it, at the rate of an export.

    Raises:
        SourceError: Its stamps are no clock for another rate, or would give too many steps; or as `cut_record`.
    """
    import numpy as np

    source = episode
    if span is None:
        stamps = trajectory.timestamps
        if not np.isfinite(stamps).all() or len(stamps) != episode.num_steps:
            stamps = np.arange(episode.num_steps) / episode.rate_hz
        part = CutRecord(episode, trajectory, stamps, range(episode.num_steps))
    else:
        part = cut_record(episode, trajectory, span)
    episode, count, first = part.episode, part.episode.num_steps, part.kept.start
    stamps, is_cut = part.stamps, count < source.num_steps
    if is_cut:
        stamps = stamps[first : part.kept.stop] - stamps[first]
    rate_hz = export_rate_hz(episode)
    if episode.rate_source == "measured":
        rate_hz = clock.joined.get(rate_hz, rate_hz)
    rate_hz, steps = float(clock.fps or rate_hz), np.arange(count, dtype=np.int64)
    if clock.fps is not None and not _is_even(stamps, clock.fps):
        if count and (np.diff(stamps) <= 0).any():
            raise SourceError("its timestamps do not increase, so that it cannot be retimed")
        seconds = np.arange(_count_steps(stamps, clock.fps)) / clock.fps
        steps = nearest_steps(stamps, seconds, hold=clock.retime == "hold")
    times = np.arange(len(steps)) / rate_hz
    shift = float(np.abs(stamps[steps] - times).max()) if len(steps) else 0.0
    written = replace(
        episode,
        num_steps=len(steps),
        rate_hz=rate_hz,
        clock_shift_seconds=0.0,
        stamped_duration_seconds=None,
    )
    signals = _at_steps(part.trajectory, steps, times)
    return RetimedEpisode(source, written, signals, part.stamps, steps + first, shift, part.kept, is_cut)


def export_rate_hz(episode: Episode) -> float:
    """The rate at which all steps of an episode are written.

    A television rate becomes exact. A measured rate is rounded to a tenth, so that episodes of one recorder become one
    dataset; the shift that this causes is counted.
    """
    return round_rate(episode.rate_hz, is_measured=episode.rate_source == "measured")


def round_rate(rate_hz: float, *, is_measured: bool) -> float:
    """The rate that is written for one in steps per second; see `export_rate_hz`."""
    for exact in (float(max(round(rate_hz), 1)), *_TELEVISION_RATES.values()):
        tolerance = _RATE_TOLERANCE if exact.is_integer() else _TELEVISION_TOLERANCE * exact
        if abs(rate_hz - exact) <= tolerance:
            return exact
    return round(rate_hz, 1) if is_measured and rate_hz >= 1 else rate_hz


def join_measured_rates(clock: ExportRate, reader: ExportReader) -> ExportRate:
    """The rate of an export, with one rate for measured ones that differ by no more than their periods do.

    Of rates that are joined, the mean by their steps is written, rounded to a tenth.
    """
    if clock.fps is not None:
        return clock
    measured: dict[float, _MeasuredRate] = {}
    ids = (member.partition(" ")[0] for member in reader.members())
    while batch := list(islice(ids, _BATCH_IDS)):
        rows = reader.stores.tables.episodes.read_columns(_RATE_COLUMNS, ids_filter(batch)).to_pylist()
        for row in rows:
            if row["rate_source"] == "measured" and row["rate_hz"] >= 1:
                rate = round_rate(row["rate_hz"], is_measured=True)
                measured.setdefault(rate, _MeasuredRate()).add(row["num_steps"], row["rate_spread"] or 0.0)
    joined: dict[float, float] = {}
    for rates in _similar_rates(measured):
        steps = sum(measured[rate].steps for rate in rates)
        mean = round(sum(rate * measured[rate].steps for rate in rates) / max(steps, 1), 1)
        joined |= {rate: mean for rate in rates if rate != mean}
    return replace(clock, joined=joined)


@dataclass(slots=True)
class _MeasuredRate:
    """Steps of the episodes of one measured rate, and the largest spread of their periods."""

    steps: int = 0
    spread: float = 0.0

    def add(self, steps: int, spread: float) -> None:
        self.steps += steps
        self.spread = max(self.spread, spread)


def _similar_rates(measured: Mapping[float, _MeasuredRate]) -> Iterator[list[float]]:
    """Runs of rates, rising, of which the largest is not beyond the smallest by more than the spread of any."""
    run: list[float] = []
    for rate in sorted(measured):
        spread = max((measured[other].spread for other in (*run, rate)), default=0.0)
        if run and rate / run[0] - 1 > min(max(spread, LEAST_RATE_SPREAD), _LARGEST_SPREAD):
            yield run
            run = []
        run.append(rate)
    if run:
        yield run


def _is_even(stamps: NDArray[np.float64], rate_hz: float) -> bool:
    import numpy as np

    return bool((np.abs(stamps - np.arange(len(stamps)) / rate_hz) <= time_tolerance(rate_hz)).all())


def _count_steps(stamps: NDArray[np.float64], rate_hz: float) -> int:
    count = int((float(stamps[-1]) + time_tolerance(rate_hz)) * rate_hz) + 1 if len(stamps) else 0
    if count > min(_MAX_STEPS, _MOST_EXPORTED_PER_STEP * len(stamps)):
        raise SourceError(
            "it would have too many steps at the rate of the export", f"{count} at {rate_hz:g} Hz"
        )
    return count


def _at_steps(trajectory: Trajectory, steps: NDArray[np.int64], times: NDArray[np.float64]) -> Trajectory:
    def select(signal: Signal | None) -> Signal | None:
        return Signal(signal.values[steps], signal.names) if signal else None

    return Trajectory(
        timestamps=times,
        state=select(trajectory.state),
        action=select(trajectory.action),
        reward=None if trajectory.reward is None else trajectory.reward[steps],
        extra={name: Signal(signal.values[steps], signal.names) for name, signal in trajectory.extra.items()},
    )


_MODE_TEXTS: Mapping[RetimeMode, str] = {
    "nearest": "the nearest for each second",
    "hold": "the last at or before each second",
}


@dataclass(slots=True)
class ClockChange:
    """One kind of change that an export made to the clocks of its episodes.

    Attributes:
        episodes: Episodes that it was made to.
        steps_before: Their stored steps.
        steps_after: Their written steps.
        largest_shift_seconds: Largest difference between the stamp of a step and the second at which it is written.
    """

    episodes: int = 0
    steps_before: int = 0
    steps_after: int = 0
    largest_shift_seconds: float = 0.0

    def add(self, retimed: RetimedEpisode) -> None:
        """Count an episode."""
        self.episodes += 1
        self.steps_before += len(retimed.kept)
        self.steps_after += retimed.episode.num_steps
        self.largest_shift_seconds = max(self.largest_shift_seconds, round(retimed.shift_seconds, 6))


class ClockChanges:
    """What an export changed in the clocks of its episodes, counted by reason.

    Args:
        clock: The rate that the user announced.
    """

    def __init__(self, clock: ExportRate) -> None:
        self._clock = clock
        self._changes: dict[str, ClockChange] = {}

    def add(self, retimed: RetimedEpisode) -> None:
        """Count an episode that was written."""
        source_hz = export_rate_hz(retimed.source)
        if source_hz in self._clock.joined and retimed.episode.rate_hz != source_hz:
            reason = f"measured rates within their spread are one rate: {retimed.episode.rate_hz:g} Hz"
            self._changes.setdefault(reason, ClockChange()).add(retimed)
        if not retimed.keeps_rate:
            reason = f"steps were selected at {self._clock.fps:g} Hz, {_MODE_TEXTS[self._clock.retime]}"
        elif retimed.shift_seconds > time_tolerance(retimed.episode.rate_hz):
            reason = "uneven stamps: step i is written at second i / fps (--fps retimes)"
        else:
            return
        self._changes.setdefault(reason, ClockChange()).add(retimed)

    def to_json(self) -> tuple[dict[str, Json], ...]:
        """One entry per reason."""
        return tuple({"reason": reason, **asdict(change)} for reason, change in sorted(self._changes.items()))


def written_record(
    episode: Episode, trajectory: Trajectory, span: Span | None, clock: ExportRate, changes: ClockChanges
) -> tuple[Episode, Trajectory, range]:
    """An episode, or a span of it, where a format needs no even clock: at the announced rate, else at its stamps.

    Args:
        episode: The episode as it is stored.
        trajectory: Its signals.
        span: The part of it that is written; None for all of it.
        clock: The rate to write.
        changes: Where a change of the clock is counted.

    Returns:
        The episode and the signals that are written, and the stored steps that they are of.

    Raises:
        SourceError: As `cut_record` and `retime_episode`.
    """
    if clock.fps:
        retimed = retime_episode(episode, trajectory, clock, span)
        changes.add(retimed)
        return retimed.episode, retimed.trajectory, retimed.kept
    if span:
        part = cut_record(episode, trajectory, span)
        return part.episode, part.trajectory, part.kept
    return episode, trajectory, range(episode.num_steps)


# Frames decoded at once where they have to be selected by time.
_BATCH_FRAMES = 64


def step_frames(
    camera: Camera, retimed: RetimedEpisode, seconds: Sequence[float]
) -> Iterator[NDArray[np.uint8]]:
    """Yield the frame of every step: in order where each step has its own, else the one shown at its second.

    Args:
        camera: The camera.
        retimed: Its episode.
        seconds: The second of each step, as `RetimedEpisode.camera_seconds` gives them.

    Yields:
        (H, W, 3) uint8 RGB. Raises MediaError or SourceError when a frame cannot be read.
    """
    if retimed.keeps_steps and retimed.source.frame_pairing == "index":
        yield from all_frames(camera.media)
        return
    for start in range(0, len(seconds), _BATCH_FRAMES):
        yield from frames_at(camera.media, seconds[start : start + _BATCH_FRAMES])
