"""The annotator `motion`: measures of a trajectory, and vectors that find similar motion."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from annotators.base import FrameVectors, Options, Result, Work, new_annotation
from annotators.motion.columns import (
    COLUMNS,
    END_EFFECTOR,
    END_EFFECTOR_COLUMNS,
    JOINT_COLUMNS,
    JOINTS,
    OTHER_DIMENSIONS,
    MotionGroup,
    find_motion_groups,
)
from annotators.motion.curves import (
    IDLE_SHARE_OF_SPEED,
    EpisodePeriods,
    PathMeasures,
    combine_path_measures,
    compute_sorted_quantile,
    divide_into_equal_periods,
    drop_parked_arms,
    measure_path,
)
from annotators.motion.grippers import GRIPPER_HIGH, GRIPPER_LOW, count_gripper_events
from annotators.motion.meaning import DatasetMeanings, MotionMeaning, infer_meaning_by_names
from annotators.options import AnnotatorOptions, takes_options
from ares.annotation import Producer, short_hash
from ares.contract import Kinematics, read_kinematic_chains
from ares.search import (
    SIGNAL_KINDS,
    SPACES_COLLECTION,
    FeatureScale,
    SignalKind,
    SignalLayout,
    compute_motion_features,
    compute_motion_vector,
    find_signal_layout,
    fit_feature_scale,
    name_motion_space,
    read_feature_scale,
)
from ares.signals import EpisodeSignals, estimate_action_lag, paired_dimensions
from ares.store import quote_literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from ares.annotation import Column
    from ares.episode import Json, Signal, Trajectory
    from ares.signals import ActionMeaning
    from ares.store import Stores


def measure_arm_paths(
    trajectory: Trajectory, meaning: MotionMeaning, periods: EpisodePeriods | None
) -> tuple[list[PathMeasures], str]:
    """The measured paths, or why there is none.

    Args:
        trajectory: The signals.
        meaning: What their dimensions are.
        periods: Of the episode; None where its stamps jump or do not rise.
    """
    import numpy as np

    signal = trajectory.state if meaning.path_signal == "state" else trajectory.action
    if signal is None:
        return [], "there is no state, and an action may be a position or a motion (give a spec)"
    if periods is None:
        is_rising = bool((np.diff(trajectory.timestamps) > 0).all())
        return [], "the stamps jump too far" if is_rising else "the stamps do not rise"
    parts = _path_values(signal, meaning)
    if not parts:
        return [], "no dimension of the state is known as a joint or a position"
    values = np.concatenate(list(parts.values()), axis=1)
    if not np.isfinite(values).all():
        return [], "the state has values that are not finite"
    # From the first value on, so that a constant is exactly at rest.
    if periods.count < 2:
        return [], "the episode is shorter than two periods"
    resampled, start = periods.means(values - values[0]), 0
    paths = []
    for group, part in parts.items():
        stop = start + part.shape[1]
        paths.append(measure_path(group, resampled[:, start:stop], periods.period))
        start = stop
    return paths, ""


def _path_values(signal: Signal, meaning: MotionMeaning) -> dict[MotionGroup, NDArray[np.float64]]:
    """(T, D) values of each path in radians or metres where the unit is known; recorded positions come first."""
    import numpy as np

    groups = find_motion_groups(signal.names, meaning.path_kinds)
    parts = {
        group: signal.values[:, list(group.columns)].astype(np.float64)
        * np.array([meaning.factor(column) for column in group.columns])
        for group in groups
    }
    if not any(group.space == END_EFFECTOR for group in groups):
        for end in meaning.end_effectors:
            parts[MotionGroup(END_EFFECTOR, end.chain.end_effector, ())] = end.positions(signal.values)
    return parts


SCALES_COLLECTION = "motion_scales"
_SAMPLE_SIZE = 200
_MAX_CACHED_SCALES = 1_000


class TrajectoryVectors:
    """Makes the vectors of state and action of episodes.

    Args:
        stores: Stores of the workspace; they keep the scale of each dataset, fitted to a sample at its first use.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._cached_scale = lru_cache(maxsize=_MAX_CACHED_SCALES)(self._find_scale)

    def make_vectors(self, work: Work) -> Iterator[FrameVectors]:
        """The vector of each finite signal of an episode, in the space of the signal's layout."""
        import numpy as np

        for kind in SIGNAL_KINDS:
            signal: Signal | None = getattr(work.trajectory, kind, None)
            layout = find_signal_layout(signal.names) if signal is not None else None
            if signal is None or layout is None or work.trajectory is None:
                continue
            space = name_motion_space(kind, layout, work.episode)
            scale = self._cached_scale(work.episode.dataset, space, kind, layout)
            vector = compute_motion_vector(
                compute_motion_features(signal, layout), work.trajectory.timestamps, scale
            )
            if vector is not None:
                yield FrameVectors(
                    episode_id=work.episode.episode_id,
                    camera="",
                    seconds=np.zeros(1),
                    vectors=vector[None],
                    space=space,
                )

    def _find_scale(self, dataset: str, space: str, kind: SignalKind, layout: SignalLayout) -> FeatureScale:
        """The scale of a dataset, stored at its first use, so that later vectors lie in the same space."""
        key = f"{space}/{dataset}"
        existing = self._stores.annotations.get_document(SCALES_COLLECTION, key)
        if isinstance(existing, dict):
            return read_feature_scale(existing)
        scale = self._fit_scale(dataset, kind, layout)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        self._stores.annotations.put_documents(
            SPACES_COLLECTION, {space: {"encoder": "", "model": "motion", "created": created}}
        )
        self._stores.annotations.put_documents(SCALES_COLLECTION, {key: scale.to_json()})
        return scale

    def _fit_scale(self, dataset: str, kind: SignalKind, layout: SignalLayout) -> FeatureScale:
        import numpy as np

        ids = chain.from_iterable(
            self._stores.tables.episodes.id_batches(f"dataset = {quote_literal(dataset)}")
        )
        # Ids are hashes: the smallest are a fair sample.
        trajectories = self._stores.tables.trajectories.read(heapq.nsmallest(_SAMPLE_SIZE, ids))
        features = [_signal_features(trajectory, kind, layout) for _, trajectory in trajectories]
        rows = [episode_rows for episode_rows in features if episode_rows is not None]
        return fit_feature_scale(np.concatenate(rows) if rows else np.empty((0, layout.width)))


def _signal_features(
    trajectory: Trajectory, kind: SignalKind, layout: SignalLayout
) -> NDArray[np.float64] | None:
    """(T, F) features of a trajectory's signal, or None when it has another layout."""
    signal: Signal | None = getattr(trajectory, kind)
    signal_layout = find_signal_layout(signal.names) if signal is not None else None
    if signal is None or signal_layout is None or signal_layout.name != layout.name:
        return None
    return compute_motion_features(signal, signal_layout)


# An action is saturated within this share of its dimension's range from the range's ends.
SATURATION_MARGIN = 0.01


def measure_actions(action: Signal | None, periods: EpisodePeriods | None) -> dict[str, float]:
    """Saturation and jumps over the continuous dimensions, those with more than three different values.

    Args:
        action: The actions.
        periods: Of the episode; None where its stamps jump or do not rise.
    """
    import numpy as np

    if action is None or not np.isfinite(action.values).all():
        return {}
    values = action.values.astype(np.float64)
    ordered = np.sort(values, axis=0)
    continuous = (ordered[1:] > ordered[:-1]).sum(axis=0) >= 3
    if not continuous.any():
        return {}
    values, ordered = values[:, continuous], ordered[:, continuous]
    low, high = ordered[0], ordered[-1]
    margin = SATURATION_MARGIN * (high - low)
    # The extreme itself is always at the end of its range, so one value per end does not count as saturation.
    ends = ((values <= low + margin).sum(axis=0) - 1) + ((values >= high - margin).sum(axis=0) - 1)
    saturation = float(ends.sum() / values.size)
    return {"action_saturation": saturation, **(_action_jumps(values, ordered, periods) if periods else {})}


def _action_jumps(
    values: NDArray[np.float64], ordered: NDArray[np.float64], periods: EpisodePeriods
) -> dict[str, float]:
    """Changes from one mean of 0.1 s to the next, as a share of the usual range: neither rate nor length matter.

    Args:
        values: (T, D) actions.
        ordered: The same, each dimension sorted.
        periods: Of the episode.
    """
    import numpy as np

    low, high = compute_sorted_quantile(ordered, 0.05), compute_sorted_quantile(ordered, 0.95)
    wide = high > low
    if periods.count < 2 or not wide.any():
        return {}
    means = periods.means(values[:, wide])
    return {"action_jumps": float((np.abs(np.diff(means, axis=0)) / (high - low)[wide]).mean())}


# A dimension moves where its range is at least this share of the largest one of the state.
_MOVING_SHARE = 0.03


def measure_action_lag(trajectory: Trajectory, meaning: ActionMeaning | None) -> float | None:
    """Seconds by which the state follows the action; None where the signals do not say it.

    Args:
        trajectory: The signals.
        meaning: What the action commands; None where nothing tells it.
    """
    import numpy as np

    state, action, seconds = trajectory.state, trajectory.action, trajectory.timestamps
    if meaning is None or state is None or action is None or not seconds[-1] > seconds[0]:
        return None
    signals = EpisodeSignals(
        episode_id="",
        seconds=seconds,
        state=state.values.astype(np.float64),
        action=action.values.astype(np.float64),
        state_names=state.names,
        action_names=action.names,
        rate_hz=(len(seconds) - 1) / float(seconds[-1] - seconds[0]),
    )
    if not (np.isfinite(signals.state).all() and np.isfinite(signals.action).all()):
        return None
    largest = float(np.ptp(signals.state, axis=0).max(initial=0.0))
    pairs = paired_dimensions(state.names, action.names)
    estimate = estimate_action_lag(signals, meaning, np.full(len(pairs), _MOVING_SHARE * largest))
    if estimate is None or estimate.lag_steps is None:
        return None
    return round(estimate.lag_steps / signals.rate_hz, 6)


_MIN_STEPS = 5
_COLUMNS_OF_SPACE: Mapping[str, tuple[Column, ...]] = {
    END_EFFECTOR: END_EFFECTOR_COLUMNS,
    JOINTS: JOINT_COLUMNS,
}
_NO_PATH = "path, speed, smoothness"


def measure_motion(trajectory: Trajectory | None, meaning: MotionMeaning | None = None) -> dict[str, Json]:
    """Measures of a trajectory, with a status.

    A measure that needs data the episode does not have is left out: no NaN and no 0 replaces it. `motion_gaps` names
    the columns that are left out, and why.

    Args:
        trajectory: The signals.
        meaning: Kinds and units of the dimensions; None for the kinds that the names say, in radians and metres.

    Returns:
        Values by column, `arms` with the measures of each arm, `path_of` where actions were measured, and `status`:
        "ok", "no path" (only measures of gripper, action and time), "too short" or "no signals".
    """
    import numpy as np

    if trajectory is None or (trajectory.state is None and trajectory.action is None):
        return {"status": "no signals", "motion_gaps": ["all columns: the episode has no signals"]}
    steps = len(trajectory.timestamps)
    if steps < _MIN_STEPS:
        gaps: list[Json] = [f"all columns: the episode has fewer than {_MIN_STEPS} steps"]
        return {"status": "too short", "steps": steps, "motion_gaps": gaps}
    state, action = trajectory.state, trajectory.action
    if meaning is None:
        meaning = infer_meaning_by_names(*(signal.names if signal else () for signal in (state, action)))
    periods = divide_into_equal_periods(trajectory.timestamps)
    paths, obstacle = measure_arm_paths(trajectory, meaning, periods)
    measures: dict[str, Json] = {
        **_path_columns(paths, meaning),
        **_event_columns(trajectory, meaning),
        **measure_actions(action, periods),
        "timestamp_jitter": round(float(np.std(np.diff(trajectory.timestamps))), 9),
    }
    lag = measure_action_lag(trajectory, meaning.action_meaning)
    measures |= {} if lag is None else {"action_lag_seconds": lag}
    reasons: list[Json] = [*_empty_column_reasons(measures, paths, obstacle, action, meaning)]
    arms: list[Json] = [_arm_measures(path) for path in paths] if len(paths) > 1 else []
    parts: dict[str, Json] = {"arms": arms} if arms else {}
    if paths and meaning.path_signal == "action":
        parts["path_of"] = "action"
    gaps_column: dict[str, Json] = {"motion_gaps": reasons} if reasons else {}
    return {"status": "ok" if paths else "no path", **measures, **gaps_column, **parts}


def _path_columns(paths: Sequence[PathMeasures], meaning: MotionMeaning) -> dict[str, Json]:
    import numpy as np

    if not paths:
        return {}
    columns: dict[str, Json] = {"motion_spaces": list(dict.fromkeys(path.group.space for path in paths))}
    for space, declared in _COLUMNS_OF_SPACE.items():
        of_space = [path for path in paths if path.group.space == space]
        values = combine_path_measures(of_space) if of_space else ()
        unit = _path_unit(of_space, meaning)
        columns |= {
            column.name: value
            for column, value in zip(declared, values, strict=False)
            if value is not None and np.isfinite(value) and (unit == "m" or column.unit not in ("m", "m/s"))
        }
        columns |= {"joint_unit": unit} if of_space and space == JOINTS else {}
    moving = np.any([path.moving for path in drop_parked_arms(paths)] or [paths[0].moving & False], axis=0)
    columns["idle_share"] = float(1 - moving.mean())
    turns = np.concatenate([path.turns for path in drop_parked_arms(paths)] or [np.zeros(0, dtype=np.intp)])
    return columns | _turn_column(turns.tolist(), float(moving.mean()), paths)


def _path_unit(paths: Sequence[PathMeasures], meaning: MotionMeaning) -> str:
    """The unit of paths in one space; forward kinematics, which needs no dimension for it, gives metres."""
    numbers = [number for path in paths for number in path.group.columns]
    return meaning.measured_unit(numbers) if numbers else "m"


def _turn_column(turns: list[float], moving_share: float, paths: Sequence[PathMeasures]) -> dict[str, Json]:
    """Changes of direction per second of motion; none for a robot at rest."""
    seconds = moving_share * len(paths[0].moving) * paths[0].period
    return {"direction_changes": sum(turns) / len(turns) / seconds} if turns and seconds > 0 else {}


def _event_columns(trajectory: Trajectory, meaning: MotionMeaning) -> dict[str, Json]:
    signals, kinds = (trajectory.state, trajectory.action), (meaning.state_kinds, meaning.action_kinds)
    counts = {
        "gripper_events": count_gripper_events(signals, kinds, "gripper"),
        "hand_events": count_gripper_events(signals, kinds, "hand"),
    }
    return {name: count for name, count in counts.items() if count is not None}


def _empty_column_reasons(
    measures: Mapping[str, Json],
    paths: Sequence[PathMeasures],
    obstacle: str,
    action: Signal | None,
    meaning: MotionMeaning,
) -> list[str]:
    """Which columns are empty, and why; the texts are the same for every episode, so that they can be counted."""
    gaps = [f"{_NO_PATH}: {obstacle}"] if not paths else _space_gaps(measures, paths, meaning)
    gaps += [
        f"{kind}_events: no dimension is known as a {kind}"
        for kind in ("gripper", "hand")
        if f"{kind}_events" not in measures
    ]
    if "action_saturation" not in measures:
        reason = "there is no action" if action is None else "no action is continuous and finite"
        gaps.append(f"action_saturation, action_jumps: {reason}")
    if "action_lag_seconds" not in measures:
        gaps.append("action_lag_seconds: state and action do not say by how much one follows the other")
    return gaps


def _space_gaps(
    measures: Mapping[str, Json], paths: Sequence[PathMeasures], meaning: MotionMeaning
) -> list[str]:
    spaces = {path.group.space for path in paths}
    gaps = []
    if END_EFFECTOR not in spaces:
        reason = meaning.kinematics_gap or "the state has no position of it, and no URDF is given"
        gaps.append(f"path_length and others of the end effector: {reason}")
    if JOINTS not in spaces:
        gaps.append("joint_path_length and others of joints: no dimension of the state is known as a joint")
    if END_EFFECTOR in spaces and "path_length" not in measures:
        gaps.append(
            "path_length, mean_speed, peak_speed: the unit of positions is not known as m or mm (give a spec)"
        )
    smoothness = {"jerk_ldlj", "joint_jerk_ldlj"} & set(measures)
    if not smoothness and spaces != {OTHER_DIMENSIONS}:
        gaps.append("smoothness: the robot does not move, or the episode is too short")
    return gaps


def _arm_measures(path: PathMeasures) -> Json:
    """The measures of one arm, for `ares show`."""
    values = {
        "length": path.length,
        "mean_speed": path.mean_speed,
        "peak_speed": path.peak_speed,
        "jerk": path.jerk,
        "sparc": path.sparc,
    }
    kept: dict[str, Json] = {name: round(value, 6) for name, value in values.items() if value is not None}
    return {"space": path.group.space, "arm": path.group.arm, **kept}


_VERSION = "5"
_BATCH_SIZE = 64


class MotionOptions(AnnotatorOptions):
    """Options of motion."""

    urdf: str = Field(
        default="",
        description="URDF file of the robot, to measure paths of its end effector by forward kinematics",
    )
    end_effector: str = Field(
        default="",
        description="link of the URDF whose path is measured; several, with commas, for several arms",
    )
    base_link: str = Field(
        default="",
        description="link of the URDF at which the arms begin, where joints before it are not recorded",
    )

    not_in_producer = frozenset({"urdf"})

    @model_validator(mode="after")
    def _check_both(self) -> MotionOptions:
        if bool(self.urdf) != bool(self.end_effector) or (self.base_link and not self.urdf):
            raise ValueError("urdf and end_effector are given together")
        return self

    def kinematics(self) -> Kinematics | None:
        """The chains of the end effectors; None without a URDF. Raises as `read_kinematic_chains`."""
        links = [link.strip() for link in self.end_effector.split(",") if link.strip()]
        return Kinematics(chains=read_kinematic_chains(self.urdf, links, self.base_link)) if links else None


@takes_options(MotionOptions)
class MotionAnnotator:
    """Measures motion and makes the vectors of `ares search --by state,action`.

    An episode without signals gets the status "no signals".

    Raises:
        RequestError: The URDF has no such link, or one of the options is missing.
        SourceError: The URDF cannot be read or is wrong.
    """

    needs_signals = True
    batch_size = _BATCH_SIZE

    def __init__(self, options: Options, stores: Stores) -> None:
        motion_options = options.parse(MotionOptions)
        kinematics = motion_options.kinematics()
        settings: dict[str, Json] = {
            "idle": IDLE_SHARE_OF_SPEED,
            "saturation": SATURATION_MARGIN,
            "gripper": [GRIPPER_LOW, GRIPPER_HIGH],
            **motion_options.producer_settings(),
            **({} if kinematics is None else {"kinematics": short_hash(kinematics.to_json())}),
        }
        self.producer = Producer(annotator="motion", version=_VERSION, settings=settings, columns=COLUMNS)
        self._vectors, self._meanings = TrajectoryVectors(stores), DatasetMeanings(stores, kinematics)

    def process(self, works: Sequence[Work]) -> list[Result]:
        """The measures of each trajectory, and its vectors."""
        return [self._measure(work) for work in works]

    def _measure(self, work: Work) -> Result:
        value = measure_motion(work.trajectory, self._meanings.find(work))
        return Result(
            annotations=[new_annotation(work, self.producer, value)],
            vectors=tuple(self._vectors.make_vectors(work)),
        )
