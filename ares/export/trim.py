"""Which parts of episodes an export keeps: all but still starts and ends, or by interventions."""

from __future__ import annotations

import heapq
import math
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ares.clock import time_tolerance
from ares.console import count_of
from ares.curation import Sets
from ares.episode import INTERVENTION, TRIMMED, Episode, Json, Span, Trajectory
from ares.errors import RequestError
from ares.signals import find_runs
from ares.store import batched, quote_literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.curation import CurationSet
    from ares.signals import TypicalEpisode
    from ares.store import Stores


# What is changed, left out and unknown.
Notes = tuple[tuple[dict[str, Json], ...], tuple[str, ...], tuple[str, ...]]
# A part of fewer steps shows no motion, see `ares.export.retime.cut_record`.
_LEAST_STEPS = 2
_BATCH_EPISODES = 128
# Episodes of a dataset that say what stands still in it: those of the lowest ids, which are hashes.
_SAMPLE_EPISODES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimRequest:
    """Which parts of each episode an export keeps: one of the two.

    Attributes:
        idle_seconds: Still starts and ends are cut but for so many seconds.
        interventions: "only" keeps the steps at which a person intervened, "without" all others.

    Raises:
        RequestError: None or both are given, or the seconds are negative or no number.
    """

    idle_seconds: float | None = None
    interventions: str = ""

    def __post_init__(self) -> None:
        idle = self.idle_seconds
        if idle is not None and not (math.isfinite(idle) and idle >= 0):
            raise RequestError("stillness that is kept is 0 s or more", f"got {idle} s")
        if (idle is None) != bool(self.interventions):
            number = "neither" if idle is None else "both"
            raise RequestError(
                "a trim cuts still ends or goes by interventions",
                f"got {number} of idle_seconds and interventions",
            )
        if self.interventions not in ("", "only", "without"):
            raise RequestError("interventions are 'only' or 'without'", f"got {self.interventions!r}")

    def __str__(self) -> str:
        if self.idle_seconds is not None:
            return f"starts and ends that stand still longer than {self.idle_seconds:g} s"
        return "interventions" if self.interventions == "without" else "what is no intervention"


@dataclass(slots=True)
class _TrimCounts:
    """What a trim does to the episodes of a set.

    Attributes:
        parts: Parts that are kept.
        cut: Episodes of which steps are cut.
        steps_before: Their steps.
        steps_after: The steps that are kept of them.
        gone: Episodes of which nothing is kept, by reason.
        short: Parts of fewer than two steps, which are cut.
        lost_rewards: Episodes with a reward, or the terminal step, in steps that are cut.
        unknown: Episodes of which it is not known whether they stand still, by reason.
    """

    parts: int = 0
    cut: int = 0
    steps_before: int = 0
    steps_after: int = 0
    gone: Counter[str] = field(default_factory=Counter)
    short: int = 0
    lost_rewards: int = 0
    unknown: Counter[str] = field(default_factory=Counter)

    def lost_parts(self) -> Iterator[str]:
        """The episodes of which nothing is kept, by reason."""
        return (f"{count_of(count, 'episode')}: {reason}" for reason, count in sorted(self.gone.items()))

    def notes(self, trim: TrimRequest) -> Notes:
        """The counts as lines of a report."""
        left_out = [*self.lost_parts()]
        if self.short:
            left_out.append(f"{count_of(self.short, 'part')} of fewer than {_LEAST_STEPS} steps")
        if self.lost_rewards:
            left_out.append(
                f"reward or terminal step of {count_of(self.lost_rewards, 'episode')}, in steps that were cut"
            )
        change: dict[str, Json] = {
            "reason": f"steps were cut: {trim}" if self.cut else f"no step was cut by: {trim}",
            "episodes": self.cut,
            "steps_before": self.steps_before,
            "steps_after": self.steps_after,
        }
        unknown = (
            f"whether {count_of(count, 'episode')} stand still: {why}"
            for why, count in sorted(self.unknown.items())
        )
        return (change,), tuple(left_out), tuple(unknown)


class TrimmedMembers:
    """The parts that are kept, as lines of spans in the order of the set, in a temporary file.

    Args:
        stores: Stores of the workspace.
        selection: A set of episodes.
        trim: What is kept.

    Raises:
        RequestError: The members are spans already, or nothing is kept.
    """

    def __init__(self, stores: Stores, selection: CurationSet, trim: TrimRequest) -> None:
        if selection.num_spans is not None:
            detail = f"{selection.label} has {selection.size}; its spans say what is written"
            raise RequestError("a set of spans is not trimmed", detail)
        self._trim, self._counts = trim, _TrimCounts()
        self._folder = Path(tempfile.mkdtemp(prefix="ares-trim-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        with (self._folder / "spans").open("w", encoding="utf-8") as file:
            cutter = _EpisodeCutter(stores, trim, self._counts)
            for part in cutter.parts(Sets(stores.annotations).members(selection)):
                file.write(part.line + "\n")
        if not self._counts.parts:
            why = "; ".join(self._counts.lost_parts())
            raise RequestError("nothing of the set is left", f"cut were {trim}; {why or 'the set is empty'}")

    @property
    def num_parts(self) -> int:
        """How many parts are kept."""
        return self._counts.parts

    def notes(self) -> Notes:
        """What is changed, left out and unknown of the episodes, as `ares.export.run.ReadingNotes`."""
        return self._counts.notes(self._trim)

    def __call__(self) -> Iterator[str]:
        with (self._folder / "spans").open(encoding="utf-8") as file:
            for line in file:
                yield line.rstrip("\n")


class _EpisodeCutter:
    """Cuts episodes into the parts that are kept.

    Args:
        stores: Stores of the workspace.
        trim: What is kept.
        counts: Where it is counted.
    """

    def __init__(self, stores: Stores, trim: TrimRequest, counts: _TrimCounts) -> None:
        self._stores, self._trim, self._counts = stores, trim, counts
        self._typical: dict[str, Mapping[tuple[tuple[str, ...], tuple[str, ...]], TypicalEpisode]] = {}

    def parts(self, ids: Iterable[str]) -> Iterator[Span]:
        """Yield the parts of episodes in the order of their ids; an episode that is not there as a whole."""
        for batch in batched(ids, _BATCH_EPISODES):
            episodes = {episode.episode_id: episode for episode in self._stores.tables.episodes.get(batch)}
            trajectories = dict(self._stores.tables.trajectories.read(list(episodes)))
            for id in batch:
                if id not in episodes or id not in trajectories:
                    self._counts.parts += 1
                    yield Span(episode_id=id, start_seconds=0.0, stop_seconds=0.0)
                else:
                    yield from self._cut_episode(episodes[id], trajectories[id])

    def _cut_episode(self, episode: Episode, trajectory: Trajectory) -> list[Span]:
        """The parts of one episode by start, which are counted."""
        import numpy as np

        stamps, why = _rising_stamps(episode, trajectory), ""
        mask = np.ones(episode.num_steps, np.bool_)
        if stamps is None:
            self._counts.unknown["their timestamps do not increase, so that they are kept whole"] += 1
            stamps = np.arange(episode.num_steps) / episode.rate_hz
        elif self._trim.interventions:
            mask = self._steps_by_intervention(episode, trajectory)
            why = "" if mask.any() else f"cut were {self._trim}"
        else:
            mask = self._moving_steps(episode, trajectory)
            why = "" if mask.any() else "it stands still from start to end"
        runs = [range(*run) for run in find_runs(mask).tolist()]
        parts = [run for run in runs if len(run) >= _LEAST_STEPS]
        self._counts.short += len(runs) - len(parts)
        self._count(episode, trajectory, parts, why)
        # One part without still ends is the episode; a part that a person names is none.
        annotation_id = TRIMMED if len(parts) == 1 and not self._trim.interventions else ""
        return [_make_span(episode, stamps, part, annotation_id) for part in parts]

    def _count(self, episode: Episode, trajectory: Trajectory, parts: Sequence[range], why: str) -> None:
        import numpy as np

        counts = self._counts
        counts.parts += len(parts)
        if not parts:
            counts.gone[why or "nothing of it is kept"] += 1
            return
        steps = list(chain.from_iterable(parts))
        if len(steps) < episode.num_steps:
            counts.cut += 1
            counts.steps_before += episode.num_steps
            counts.steps_after += len(steps)
            is_cut = np.ones(episode.num_steps, np.bool_)
            is_cut[steps] = False
            terminal = trajectory.extra.get("is_terminal")
            signals = (trajectory.reward, terminal.values if terminal else None)
            counts.lost_rewards += any(
                bool((signal[is_cut] != 0).any()) for signal in signals if signal is not None
            )

    def _steps_by_intervention(self, episode: Episode, trajectory: Trajectory) -> NDArray[np.bool_]:
        """(T,) whether a step is kept; an episode that says nothing of interventions has none."""
        import numpy as np

        signal = trajectory.extra.get(INTERVENTION)
        steps = np.zeros(episode.num_steps, np.bool_) if signal is None else signal.values[:, 0] > 0
        kept: NDArray[np.bool_] = steps if self._trim.interventions == "only" else ~steps
        return kept

    def _moving_steps(self, episode: Episode, trajectory: Trajectory) -> NDArray[np.bool_]:
        """(T,) whether a step is not of a still start or end."""
        import numpy as np

        keep = np.ones(episode.num_steps, np.bool_)
        if self._trim.idle_seconds is None:
            return keep
        still = self._count_idle(episode, trajectory)
        if still is None:
            return keep
        start, stop = still
        if start >= episode.num_steps:
            return ~keep
        margin = math.ceil(self._trim.idle_seconds * episode.rate_hz - 1e-9)
        keep[: max(0, start - margin)] = False
        keep[min(episode.num_steps, episode.num_steps - stop + margin) :] = False
        return keep

    def _count_idle(self, episode: Episode, trajectory: Trajectory) -> tuple[int, int] | None:
        """Steps that stand still at the start and at the end, in state and action; None where that is not known."""
        import numpy as np

        from ares.checks import count_idle_steps
        from ares.signals import episode_signals, with_continuous_rotations

        signals = with_continuous_rotations(episode_signals(episode, trajectory))
        if not signals.state_names and not signals.action_names:
            self._counts.unknown["they have neither state nor action"] += 1
            return None
        typical = self._typical_episode(episode)
        still = [
            count_idle_steps(values, usual)
            for values, usual in (
                (signals.state, typical.state if typical else None),
                (signals.action, typical.action if typical else None),
            )
            if usual is not None and values.shape[1] and usual.scale and np.isfinite(values).all()
        ]
        if not still:
            self._counts.unknown["nothing of their kind moves, or their values are not finite"] += 1
            return None
        return min(start for start, _ in still), min(stop for _, stop in still)

    def _typical_episode(self, episode: Episode) -> TypicalEpisode | None:
        """What is typical of the dataset and the dimensions of an episode, None where nothing is."""
        if episode.dataset not in self._typical:
            self._typical[episode.dataset] = dict(_learn_typical(self._stores, episode.dataset))
        return self._typical[episode.dataset].get((episode.state_names, episode.action_names))


def _learn_typical(
    stores: Stores, dataset: str
) -> Iterator[tuple[tuple[tuple[str, ...], tuple[str, ...]], TypicalEpisode]]:
    """Yield what is typical of each layout of a dataset, as `ares check` learns it of some episodes."""
    from ares.signals import DatasetStatistics, episode_signals

    where = f"dataset = {quote_literal(dataset)}"
    ids = chain.from_iterable(stores.tables.episodes.id_batches(where))
    sample = {
        episode.episode_id: episode
        for episode in stores.tables.episodes.get(heapq.nsmallest(_SAMPLE_EPISODES, ids))
    }
    statistics: dict[tuple[tuple[str, ...], tuple[str, ...]], DatasetStatistics] = {}
    for id, trajectory in stores.tables.trajectories.read(list(sample)):
        signals = episode_signals(sample[id], trajectory)
        layout = (signals.state_names, signals.action_names)
        new = DatasetStatistics(state_names=layout[0], action_names=layout[1])
        statistics.setdefault(layout, new).add(signals)
    for layout, gathered in statistics.items():
        if (typical := gathered.typical()) is not None:
            yield layout, typical


def _rising_stamps(episode: Episode, trajectory: Trajectory) -> NDArray[np.float64] | None:
    """(T,) stamps of the steps as a cut reads them; None where two are too near to be distinguished."""
    import numpy as np

    stamps = trajectory.timestamps
    if not np.isfinite(stamps).all() or len(stamps) != episode.num_steps:
        stamps = np.arange(episode.num_steps) / episode.rate_hz
    is_rising = bool((np.diff(stamps) > time_tolerance(episode.rate_hz)).all())
    return stamps if is_rising else None


def _make_span(episode: Episode, stamps: NDArray[np.float64], part: range, annotation_id: str) -> Span:
    """The span of some steps, [start, stop): it ends where the step behind it begins."""
    last = len(stamps) - 1
    stop = float(stamps[part.stop]) if part.stop <= last else float(stamps[last]) + 1 / episode.rate_hz
    return Span(
        episode_id=episode.episode_id,
        start_seconds=float(stamps[part.start]),
        stop_seconds=stop,
        annotation_id=annotation_id,
    )
