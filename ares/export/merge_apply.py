"""Makes the episodes of several sources into those of one dataset, as the plan of a merge says."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.contract import (
    ClashError,
    DimensionPlan,
    LayoutContract,
    SetConverter,
    SignalName,
    convert_rotation_form,
    find_clashes,
    parse_conversions,
    plan_dimensions,
    rename_contract_dimensions,
    replace_names,
    with_turned_rotation,
)
from ares.episode import DEPTH_CAMERAS, Camera, Episode, Json, MediaRef, Signal, Trajectory
from ares.errors import RequestError, SourceError
from ares.export.base import MASK_SIGNALS
from ares.export.merge_plan import (
    DROP,
    MergePlan,
    PaddedKind,
    PlannedCamera,
    PlannedSource,
    SourceKey,
    source_key,
)
from ares.export.segments import EpisodeSegments

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Extra signals that say what of an episode is its own: 1 for what its source has, 0 for what was padded.
MASK_KINDS: dict[PaddedKind, str] = dict(
    zip(("state", "action", "camera", "feature"), MASK_SIGNALS, strict=True)
)
PADDED_FLAG = "padded"
# A file of black pictures has at least so many, and is shared by all episodes with no more steps.
_LEAST_BLACK_FRAMES = 256


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, those that are there twice with a number: ("x", "x (2)")."""
    counts: Counter[str] = Counter()
    unique = []
    for name in names:
        counts[name] += 1
        unique.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return tuple(unique)


def key_of_episode(episode: Episode) -> SourceKey:
    """The source of an episode, as a plan names it."""
    return SourceKey(
        episode.format,
        episode.dataset,
        episode.version,
        tuple(sorted(camera.name for camera in episode.cameras)),
        unique_names(episode.state_names),
        unique_names(episode.action_names),
    )


@dataclass(frozen=True, slots=True)
class _SourceMerge:
    """What the plan does with the episodes of one source."""

    source: PlannedSource
    state: DimensionPlan
    action: DimensionPlan
    reasons: tuple[str, ...]
    origins: Mapping[PaddedKind, Mapping[str, tuple[str, ...]]]

    @property
    def plans(self) -> dict[str, DimensionPlan]:
        """What becomes of the dimensions, by signal."""
        return {"state": self.state, "action": self.action}


class MergeApplier:
    """Applies a plan to episodes, one by one.

    Args:
        plan: The plan.

    Attributes:
        plan: The plan.
    """

    def __init__(self, plan: MergePlan) -> None:
        self.plan = plan
        self._unused: dict[str, str] = {}
        self._gaps: dict[str, str] = {}
        self._tasks = plan.task_by_text
        self._sources = {source_key(source): self._plan_source(source) for source in plan.sources}
        self._last: tuple[Episode, _SourceMerge] | None = None
        self._black: dict[tuple[int, int, float], tuple[int, Path]] = {}
        self._folder: Path | None = None

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the plan leaves out, in words."""
        dropped = [
            f"{kind} of {source.label} that the plan drops: {', '.join(names)}"
            for source in self.plan.sources
            for kind, mapping in (source.parts if source.use else ())
            if (names := [name for name, goal in mapping.items() if goal == DROP])
        ]
        counts = Counter(self._unused.values())
        unused = [
            f"episodes of {label} that the plan does not use: {count}" for label, count in counts.items()
        ]
        gaps = [
            f"{what}: {count_of(count, 'episode')}" for what, count in Counter(self._gaps.values()).items()
        ]
        return (*unused, *dropped, *gaps)

    def uses(self, episode: Episode) -> bool:
        """Whether an episode is written; one that is not is counted. Raises SourceError where the plan has no word."""
        source = self._find_source(episode).source
        if not source.use:
            self._unused[episode.episode_id] = source.label
        return source.use

    def reasons(self, episode: Episode) -> tuple[str, ...]:
        """What the plan changes in an episode, in words; the episode as it is stored."""
        return self._find_source(episode).reasons

    def rename_contract(self, layout: LayoutContract) -> LayoutContract | None:
        """A layout with the names and the order of the merged dataset, without the dimensions that are dropped.

        None where the plan uses no source with its dimensions.
        """
        merge = self._find_layout(layout)
        if merge is None:
            return None
        contract = layout.contract
        for signal, names in (("state", merge.source.state), ("action", merge.source.action)):
            dimensions = tuple(names)
            for turn in merge.source.rotations:
                if turn.signal == signal and contract is not None:
                    contract = with_turned_rotation(
                        contract, signal, dimensions, turn.names, turn.to, turn.to_form
                    )
                    dimensions = replace_names(dimensions, turn.names, turn.to)
        return replace(
            layout,
            state_names=merge.state.names,
            action_names=merge.action.names,
            contract=None if contract is None else rename_contract_dimensions(contract, merge.plans),
        )

    def select(self, episode: Episode, trajectory: Trajectory) -> Trajectory:
        """The signals of an episode with the names of the merged dataset, without what is dropped."""
        merge = self._find_source(episode)
        state = _select_dimensions(_turn_rotations(trajectory.state, merge.source, "state"), merge.state)
        action = _select_dimensions(_turn_rotations(trajectory.action, merge.source, "action"), merge.action)
        return replace(trajectory, state=state, action=action)

    def rename(self, episode: Episode) -> Episode:
        """An episode with the names of the merged dataset, before its signals are converted.

        Raises:
            SourceError: Its source is not in the plan.
        """
        merge = self._find_source(episode)
        source, task = merge.source, self._tasks.get(episode.instruction, episode.instruction)
        texts = dict.fromkeys(self._tasks.get(text, text) for text in episode.instructions)
        return replace(
            episode,
            cameras=tuple(self._rename_cameras(episode, source)),
            state_names=merge.state.names,
            action_names=merge.action.names,
            instruction=task,
            instructions=tuple(texts),
            split=source.splits.get(episode.split, episode.split),
            metadata=_rename_depth(episode.metadata, source.cameras),
        )

    def pad(self, stored: Episode, episode: Episode, trajectory: Trajectory) -> tuple[Episode, Trajectory]:
        """An episode with everything that the merged dataset has: zeros and black pictures where it lacks it.

        Args:
            stored: The episode as it is stored.
            episode: The same, renamed and converted.
            trajectory: Its signals.
        """
        merge, plan, steps = self._find_source(stored), self.plan, episode.num_steps
        extra = self._keep_features(stored, trajectory.extra, steps)
        state = _pad_signal(trajectory.state, merge.state, plan.state, steps)
        action = _pad_signal(trajectory.action, merge.action, plan.action, steps)
        for kind in ("state", "action", "camera"):
            if self._is_padded(kind):
                origins, earlier = merge.origins[kind], trajectory.extra.get(MASK_KINDS[kind])
                # RLDS has no names for its numbers.
                names = tuple({"state": merge.source.state, "action": merge.source.action}.get(kind, ()))
                if earlier is not None and len(names) == len(earlier.names):
                    earlier = Signal(earlier.values, names)
                extra[MASK_KINDS[kind]] = _mask_signal(plan.targets[kind], origins, earlier, steps)
        cameras = list(episode.cameras)
        if self._is_padded("camera"):
            padded = merge.source.padded("camera", tuple(plan.cameras))
            cameras += [self._black_camera(name, episode) for name in plan.cameras if name in padded]
        episode = replace(episode, cameras=tuple(cameras), state_names=plan.state, action_names=plan.action)
        return episode, replace(trajectory, state=state, action=action, extra=extra)

    def _keep_features(self, stored: Episode, extra: Mapping[str, Signal], steps: int) -> dict[str, Signal]:
        """The signals besides state and action: what the plan names, and zeros where it is lacking or not finite.

        Raises SourceError for one that has another number of dimensions than the plan says.
        """
        import numpy as np

        merge, plan = self._find_source(stored), self.plan
        source = merge.source
        skipped = {*source.features, *MASK_SIGNALS}
        kept = {name: signal for name, signal in extra.items() if name not in skipped}
        origins = {goal: names for goal, names in merge.origins["feature"].items() if names[0] in extra}
        if self._is_padded("feature"):
            earlier = extra.get(MASK_KINDS["feature"])
            mask = _mask_signal(tuple(plan.features), origins, earlier, steps)
        for number, (goal, dimensions) in enumerate(plan.features.items()):
            values = np.zeros((steps, len(dimensions)), np.float32)
            if goal in origins:
                values = _order_dimensions(goal, extra[origins[goal][0]], dimensions)
                is_finite = np.isfinite(values)
                if not is_finite.all():
                    what = (
                        f"values of {origins[goal][0]} of {source.label} that are not finite, 0 with a mask"
                    )
                    self._gaps[f"{stored.episode_id} {goal}"] = what
                    values = np.where(is_finite, values, np.float32(0))
                    mask.values[~is_finite.all(axis=1), number] = 0
            kept[goal] = Signal(values, dimensions)
        return kept | ({MASK_KINDS["feature"]: mask} if self._is_padded("feature") else {})

    def _is_padded(self, kind: PaddedKind) -> bool:
        """Whether any source may lack something of a kind: then every episode says what of it is its own."""
        return (
            bool(kind == "feature" and self.plan.features)
            or kind in self.plan.masks
            or any(
                entry.split(" ")[0] == kind for part in self.plan.sources if part.use for entry in part.pad
            )
        )

    def _plan_source(self, source: PlannedSource) -> _SourceMerge:
        state, action = source.turned("state"), source.turned("action")
        return _SourceMerge(
            source,
            plan_dimensions(list(state), state, self.plan.state),
            plan_dimensions(list(action), action, self.plan.action),
            tuple(_describe_changes(source, self.plan)),
            {kind: dict(_find_origins(source, kind, mapping)) for kind, mapping in source.parts},
        )

    def _find_source(self, episode: Episode) -> _SourceMerge:
        """The source of an episode as it is stored; episodes come one by one, and that of the last one is known."""
        if self._last is not None and self._last[0] is episode:
            return self._last[1]
        merge = self._sources.get(key_of_episode(episode))
        if merge is None:
            cameras = ", ".join(camera.name for camera in episode.cameras) or "none"
            detail = (
                f"{episode.dataset} {episode.version}, cameras {cameras}, state {len(episode.state_names)}, "
                f"action {len(episode.action_names)}; write the plan of this set again"
            )
            raise SourceError("the plan says nothing of its source", detail)
        self._last = (episode, merge)
        return merge

    def _find_layout(self, layout: LayoutContract) -> _SourceMerge | None:
        """The source that has the dimensions of a layout; of several, which differ in their cameras, the first."""
        names = (unique_names(layout.state_names), unique_names(layout.action_names))
        for key, merge in self._sources.items():
            same = (key.format, key.dataset, key.version) == layout.key
            if merge.source.use and same and (key.state, key.action) == names:
                return merge
        return None

    def _rename_cameras(self, episode: Episode, source: PlannedSource) -> Sequence[Camera]:
        """The cameras that stay, in the order of the merged dataset, each with its size there."""
        by_goal = {source.cameras[camera.name]: camera for camera in episode.cameras}
        return [
            _fit_camera(by_goal[name], name, planned)
            for name, planned in self.plan.cameras.items()
            if name in by_goal
        ]

    def _black_camera(self, name: str, episode: Episode) -> Camera:
        planned = self.plan.cameras[name]
        uri = str(self._black_video(planned, episode.num_steps, episode.rate_hz))
        media = MediaRef(
            kind="mp4",
            uri=uri,
            start_seconds=0.0,
            stop_seconds=episode.num_steps / episode.rate_hz,
            num_frames=episode.num_steps,
            rate_hz=episode.rate_hz,
        )
        return Camera(
            name=name,
            role=planned.role,
            width=planned.width,
            height=planned.height,
            codec="h264",
            media=media,
            flags=(PADDED_FLAG,),
        )

    def _black_video(self, planned: PlannedCamera, steps: int, rate_hz: float) -> Path:
        """A file of black pictures with at least so many of them, made once for each size and rate."""
        import numpy as np

        from ares.media import encode_mp4

        key = (planned.width, planned.height, rate_hz)
        count, path = self._black.get(key, (0, Path()))
        if count < steps:
            count = max(_LEAST_BLACK_FRAMES, 1 << (steps - 1).bit_length())
            path = self._scratch_folder() / f"{planned.width}x{planned.height}-{rate_hz}-{count}.mp4"
            frame = np.zeros((planned.height, planned.width, 3), np.uint8)
            encode_mp4((frame for _ in range(count)), path, rate_hz)
            self._black[key] = (count, path)
        return path

    def _scratch_folder(self) -> Path:
        """A folder that goes with this object."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="ares-black-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder


def _find_origins(
    source: PlannedSource, kind: PaddedKind, mapping: Mapping[str, str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """For each name of the merged dataset that a source has, its names there: of a rotation all of its numbers."""
    turned = {goal: turn.names for turn in source.rotations if turn.signal == kind for goal in turn.to}
    for name, goal in mapping.items():
        if goal != DROP:
            yield goal, turned.get(name, (name,))


def _describe_changes(source: PlannedSource, plan: MergePlan) -> list[str]:
    """What the plan changes in the episodes of a source, in words."""
    lines = []
    for kind, mapping in source.parts:
        renamed = [f"{name} is {goal}" for name, goal in mapping.items() if goal not in (DROP, name)]
        padded = sorted(source.padded(kind, plan.targets[kind]))
        texts = (("renamed", renamed), ("padded", padded))
        lines += [f"{kind} of {source.label} {verb}: {', '.join(names)}" for verb, names in texts if names]
    turned = [
        f"{turn.signal} of {source.label} turned: {', '.join(turn.names)} ({turn.form}) are {', '.join(turn.to)} "
        f"({turn.to_form})"
        for turn in source.rotations
    ]
    return [*lines, *turned]


def _fit_camera(camera: Camera, name: str, planned: PlannedCamera) -> Camera:
    """A camera with its name and size in the merged dataset; pictures of another size are fitted when read."""
    camera = replace(camera, name=name, role=planned.role)
    if (camera.width, camera.height) == (planned.width, planned.height):
        return camera
    media = replace(camera.media, fit=(planned.width, planned.height))
    return replace(camera, width=planned.width, height=planned.height, media=media)


def _rename_depth(metadata: Mapping[str, Json], names: Mapping[str, str]) -> Mapping[str, Json]:
    """The metadata with the depth of each camera under its new name; that of a dropped camera goes."""
    depth = metadata.get(DEPTH_CAMERAS)
    if not isinstance(depth, Mapping):
        return metadata
    renamed = {names.get(name, name): facts for name, facts in depth.items() if names.get(name, name) != DROP}
    return {**metadata, DEPTH_CAMERAS: renamed}


def _turn_rotations(signal: Signal | None, source: PlannedSource, name: SignalName) -> Signal | None:
    """A signal of a source with its rotations in the dimensions that they become."""
    import numpy as np

    names = tuple(source.state if name == "state" else source.action)
    for turn in source.rotations if signal is not None else ():
        if signal is not None and turn.signal == name:
            new = replace_names(names, turn.names, turn.to)
            values = np.zeros((len(signal.values), len(new)), np.float32)
            rotations = signal.values[:, [names.index(part) for part in turn.names]].astype(np.float64)
            kept = [part for part in names if part not in turn.names]
            values[:, [new.index(part) for part in kept]] = signal.values[
                :, [names.index(part) for part in kept]
            ]
            values[:, [new.index(part) for part in turn.to]] = convert_rotation_form(
                rotations, turn.form, turn.to_form
            )
            signal, names = Signal(values, new), new
    return signal


def _select_dimensions(signal: Signal | None, plan: DimensionPlan) -> Signal | None:
    if signal is None or not plan.numbers:
        return None
    return Signal(signal.values[:, list(plan.numbers)], plan.names)


def _pad_signal(
    signal: Signal | None, plan: DimensionPlan, names: tuple[str, ...], steps: int
) -> Signal | None:
    """(T, D) of all dimensions of the merged dataset, zero where the source lacks them."""
    import numpy as np

    if not names:
        return None
    values = np.zeros((steps, len(names)), np.float32)
    if signal is not None:
        values[:, list(plan.positions)] = signal.values
    return Signal(values, names)


def _order_dimensions(goal: str, signal: Signal, dimensions: tuple[str, ...]) -> NDArray[np.float32]:
    """(T, D) of a feature: its dimensions by their names where these are the same, else in their order.

    Raises SourceError for another number of dimensions.
    """
    if len(signal.names) != len(dimensions):
        detail = f"{goal}: {count_of(len(signal.names), 'number')}, the plan has {len(dimensions)}"
        raise SourceError("a feature has another number of dimensions", detail)
    is_same = {*signal.names} == {*dimensions} and signal.names != dimensions
    order = [signal.names.index(name) for name in dimensions] if is_same else slice(None)
    return signal.values[:, order]


def _mask_signal(
    names: tuple[str, ...], origins: Mapping[str, tuple[str, ...]], earlier: Signal | None, steps: int
) -> Signal:
    """(T, D) 1 for what is its own of the merged dataset, 0 for what was padded, now or in an earlier merge.

    Args:
        names: What the merged dataset has.
        origins: For each of these that the source has, its names there.
        earlier: The mask of the source, where that is a merged dataset itself.
        steps: T.
    """
    import numpy as np

    values = np.zeros((steps, len(names)), np.float32)
    for number, name in enumerate(names):
        if name in origins:
            values[:, number] = 1
            for part in origins[name] if earlier is not None else ():
                if earlier is not None and part in earlier.names:
                    values[:, number] *= earlier.values[:, earlier.names.index(part)]
    return Signal(values, names)


class MergeConverter:
    """Renames, converts and pads the episodes of a set: what an export with a plan has for its `SetConverter`.

    Args:
        plan: The plan.
        contracts: What the signals of the set mean, by their names in the sources.
        conversions: Conversions that a user names besides those of the plan.

    Attributes:
        unknown: What of the meaning of signals is not known.
        layouts: What they mean after the conversions, by their names in the merged dataset.

    Raises:
        ClashError: Signals of the merged dataset mean different things after the conversions.
        RequestError: A conversion cannot be made, or two kinds of episodes of one dataset get the same names.
    """

    def __init__(
        self, plan: MergePlan, contracts: Sequence[LayoutContract], conversions: Sequence[str] = ()
    ) -> None:
        self._applier = MergeApplier(plan)
        renamed = [
            contract
            for layout in contracts
            if (contract := self._applier.rename_contract(layout)) is not None
        ]
        _refuse_same_names(renamed)
        self._conversion = SetConverter(renamed, parse_conversions((*plan.convert, *conversions)))
        _refuse_partial_clashes(self._conversion.layouts)
        self.unknown, self.layouts = self._conversion.unknown, self._conversion.layouts

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the plan leaves out, in words."""
        return self._applier.left_out

    @property
    def changes_signals(self) -> bool:
        """Whether any episode is changed."""
        return True

    def apply(self, episode: Episode, trajectory: Trajectory) -> tuple[Episode, Trajectory] | None:
        """An episode as it is exported; None where the plan does not use its source.

        Raises SourceError as `MergeApplier` and `SetConverter` do.
        """
        if not self._applier.uses(episode):
            return None
        return self._applier.pad(episode, *self.convert(episode, trajectory))

    def convert(self, episode: Episode, trajectory: Trajectory) -> tuple[Episode, Trajectory]:
        """An episode with what it has of the merged dataset, converted and not padded. Raises as `apply`."""
        renamed, signals = self._applier.rename(episode), self._applier.select(episode, trajectory)
        return self._conversion.apply(renamed, signals)

    def reasons(self, episode: Episode) -> tuple[str, ...]:
        """What `apply` changes in an episode, in words; the episode as it is stored."""
        return (*self._applier.reasons(episode), *self._conversion.reasons(self._applier.rename(episode)))

    def count(self, reasons: Sequence[str]) -> None:
        """Count an episode that was written with these changes."""
        self._conversion.count(reasons)

    def to_json(self) -> tuple[dict[str, Json], ...]:
        """What was changed, with the number of episodes."""
        return self._conversion.to_json()


def rename_text_cameras(
    plan: MergePlan, episodes: Sequence[Episode], texts: Mapping[str, EpisodeSegments]
) -> dict[str, EpisodeSegments]:
    """The texts of some episodes with the names that the merged dataset has for the cameras that they are about.

    A text about a camera that is dropped, or that one dataset has under two names, is about none that is exported.

    Args:
        plan: The plan.
        episodes: The episodes.
        texts: Their texts by episode_id.
    """
    names = plan.camera_names
    return {
        episode.episode_id: texts[episode.episode_id].with_cameras(
            names.get((episode.format, episode.dataset, episode.version), {})
        )
        for episode in episodes
        if episode.episode_id in texts
    }


def _refuse_same_names(layouts: Sequence[LayoutContract]) -> None:
    """Raises RequestError where two kinds of episodes of one dataset could not be converted apart any more."""
    counts = Counter((layout.key, layout.state_names, layout.action_names) for layout in layouts)
    for (key, state, action), count in counts.items():
        if count > 1 and (state or action):
            raise RequestError(
                f"the plan gives {count_of(count, 'kind')} of episodes of {key.dataset} the same names",
                "their units may differ; use one of them (`use: false`), or ingest them as separate datasets",
            )


def _refuse_partial_clashes(layouts: Sequence[LayoutContract]) -> None:
    """Raises ClashError where two sources differ in dimensions that both have, though each has others too."""
    clashes = tuple(clash for pair in _common_parts(layouts) for clash in find_clashes(pair))
    if clashes:
        detail = " | ".join(f"{clash}; {clash.remedy}" for clash in clashes)
        raise ClashError("signals of the set mean different things", detail, clashes)


def _common_parts(layouts: Sequence[LayoutContract]) -> Iterator[tuple[LayoutContract, LayoutContract]]:
    """The largest layout with each other one, both with nothing but the dimensions that they share."""
    ordered = sorted(layouts, key=lambda layout: -layout.num_episodes)
    for first, other in zip(ordered[:1] * (len(ordered) - 1), ordered[1:], strict=True):
        state = [name for name in first.state_names if name in other.state_names]
        action = [name for name in first.action_names if name in other.action_names]
        is_whole = len(state) == len(first.state_names) == len(other.state_names)
        if not (is_whole and len(action) == len(first.action_names) == len(other.action_names)):
            yield _keep_dimensions(first, state, action), _keep_dimensions(other, state, action)


def _keep_dimensions(layout: LayoutContract, state: Sequence[str], action: Sequence[str]) -> LayoutContract:
    plans = {
        signal: plan_dimensions(names, {name: name if name in kept else DROP for name in names}, kept)
        for signal, names, kept in (
            ("state", layout.state_names, state),
            ("action", layout.action_names, action),
        )
    }
    contract = layout.contract
    return replace(
        layout,
        state_names=tuple(state),
        action_names=tuple(action),
        contract=None if contract is None else rename_contract_dimensions(contract, plans),
    )
