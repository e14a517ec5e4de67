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
    parse_conversions,
    plan_dimensions,
    rename_contract_dimensions,
)
from ares.episode import DEPTH_CAMERAS, Camera, Episode, Json, MediaRef, Signal, Trajectory
from ares.errors import SourceError
from ares.export.merge_plan import MergePlan, PaddedKind, PlannedCamera, PlannedSource
from ares.export.segments import EpisodeSegments

if TYPE_CHECKING:
    pass

# Extra signals that say what of an episode is its own: 1 for what its source has, 0 for what was padded.
MASK_KINDS: Mapping[PaddedKind, str] = {
    "state": "mask.state",
    "action": "mask.action",
    "camera": "mask.camera",
}
PADDED_FLAG, _BLACK_FLAG = "padded", "black"
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


# What the names of an episode become, those that are left out with "".
_Goals = dict[PaddedKind, dict[str, str]]


@dataclass(frozen=True, slots=True)
class _LayoutMerge:
    """What the plan does with the episodes of one source that have the same names.

    Attributes:
        source: The source.
        goals: What their names become.
        state: What becomes of the dimensions of the state.
        action: The same of the action.
        reasons: What is changed, in words.
    """

    source: PlannedSource
    goals: _Goals
    state: DimensionPlan
    action: DimensionPlan
    reasons: tuple[str, ...]


class MergeApplier:
    """Applies a plan to episodes, one by one.

    Args:
        plan: The plan.

    Attributes:
        plan: The plan.
    """

    def __init__(self, plan: MergePlan) -> None:
        self.plan = plan
        self._tasks = plan.task_by_text
        self._sources = {source.key: source for source in plan.sources}
        self._layouts: dict[tuple[object, ...], _LayoutMerge] = {}
        self._unused: dict[str, str] = {}
        self._black: dict[tuple[int, int, float], tuple[int, Path]] = {}
        self._folder: Path | None = None

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the plan leaves out of the episodes that were read, in words."""
        dropped: dict[str, dict[str, None]] = {}
        for merge in self._layouts.values():
            for kind, goals in merge.goals.items():
                names = dict.fromkeys(name for name, goal in goals.items() if not goal)
                dropped.setdefault(f"{kind} of {merge.source.label}", {}).update(names)
        unused = Counter(self._unused.values())
        return (
            *(f"episodes of {label} that the plan does not use: {count}" for label, count in unused.items()),
            *(
                f"{what} that the merged dataset does not have: {', '.join(names)}"
                for what, names in dropped.items()
                if names
            ),
        )

    def uses(self, episode: Episode) -> bool:
        """Whether an episode is written; one that is not is counted. Raises SourceError where the plan has no word."""
        source = self._find_source(episode.format, episode.dataset, episode.version)
        if not source.use:
            self._unused[episode.episode_id] = source.label
        return source.use

    def reasons(self, episode: Episode) -> tuple[str, ...]:
        """What the plan changes in an episode, in words; the episode as it is stored."""
        return self._find_layout(episode).reasons

    def rename_contract(self, layout: LayoutContract) -> LayoutContract | None:
        """A layout, and its sample, with the names and the order of the merged dataset, without what is left out.

        None where the plan does not use its source.
        """
        source = self._sources.get(layout.key)
        if source is None or not source.use:
            return None
        state = self._plan_dimensions(source, "state", unique_names(layout.state_names))
        action = self._plan_dimensions(source, "action", unique_names(layout.action_names))
        plans = {"state": state, "action": action}
        return replace(
            layout,
            state_names=state.names,
            action_names=action.names,
            contract=layout.contract and rename_contract_dimensions(layout.contract, plans),
            sample=[(self.rename(episode), self.select(episode, part)) for episode, part in layout.sample],
        )

    def select(self, episode: Episode, trajectory: Trajectory) -> Trajectory:
        """The signals of an episode with the names of the merged dataset, without what is left out."""
        merge = self._find_layout(episode)
        state = _select_dimensions(trajectory.state, merge.state)
        return replace(trajectory, state=state, action=_select_dimensions(trajectory.action, merge.action))

    def rename(self, episode: Episode) -> Episode:
        """An episode with the names of the merged dataset, before its signals are converted.

        Raises SourceError where its source is not in the plan.
        """
        merge = self._find_layout(episode)
        texts = dict.fromkeys(self._tasks.get(text, text) for text in episode.instructions)
        return replace(
            episode,
            cameras=tuple(self._rename_cameras(episode, merge.goals["camera"])),
            state_names=merge.state.names,
            action_names=merge.action.names,
            instruction=self._tasks.get(episode.instruction, episode.instruction),
            instructions=tuple(texts),
            metadata=_rename_depth(episode.metadata, merge.goals["camera"]),
        )

    def pad(self, stored: Episode, episode: Episode, trajectory: Trajectory) -> tuple[Episode, Trajectory]:
        """An episode with everything that the merged dataset has: zeros and black pictures where it lacks it.

        Args:
            stored: The episode as it is stored.
            episode: The same, renamed and converted.
            trajectory: Its signals.

        Raises:
            SourceError: It lacks something that the plan has no mask of.
        """
        merge, plan, steps = self._find_layout(stored), self.plan, episode.num_steps
        extra = {name: signal for name, signal in trajectory.extra.items() if name not in MASK_KINDS.values()}
        for kind, goals in plan.targets.items():
            origins = {goal: name for name, goal in merge.goals[kind].items() if goal}
            missing = [goal for goal in goals if goal not in origins]
            if kind in plan.masks:
                earlier = trajectory.extra.get(MASK_KINDS[kind])
                extra[MASK_KINDS[kind]] = _mask_signal(goals, origins, earlier, steps)
            elif missing:
                detail = f"{kind} {', '.join(missing)}; map it, or list {kind} under `masks` of the plan"
                raise SourceError("the episode lacks what the merged dataset has", detail)
        known = {camera.name for camera in episode.cameras}
        black = [self._black_camera(name, episode) for name in plan.cameras if name not in known]
        return (
            replace(
                episode,
                cameras=(*episode.cameras, *black),
                state_names=plan.state,
                action_names=plan.action,
            ),
            replace(
                trajectory,
                state=_pad_signal(trajectory.state, merge.state, plan.state, steps),
                action=_pad_signal(trajectory.action, merge.action, plan.action, steps),
                extra=extra,
            ),
        )

    def _find_source(self, *key: str) -> PlannedSource:
        source = self._sources.get((key[0], key[1], key[2]))
        if source is None:
            detail = f"{key[1]} {key[2]}; write the plan of this set again"
            raise SourceError("the plan says nothing of its source", detail)
        return source

    def _find_layout(self, episode: Episode) -> _LayoutMerge:
        """What becomes of an episode as it is stored; the same for all with its names and sizes."""
        views = tuple(
            (camera.name, camera.width, camera.height, _BLACK_FLAG in camera.flags)
            for camera in episode.cameras
        )
        source = self._find_source(episode.format, episode.dataset, episode.version)
        key = (source.key, views, episode.state_names, episode.action_names)
        if key not in self._layouts:
            self._layouts[key] = self._plan_layout(source, episode)
        return self._layouts[key]

    def _plan_layout(self, source: PlannedSource, episode: Episode) -> _LayoutMerge:
        seen = [camera.name for camera in episode.cameras if _BLACK_FLAG not in camera.flags]
        black = {camera.name: "" for camera in episode.cameras if _BLACK_FLAG in camera.flags}
        state, action = unique_names(episode.state_names), unique_names(episode.action_names)
        goals: _Goals = {
            "camera": self._goals(source, "camera", seen) | black,
            "state": self._goals(source, "state", state),
            "action": self._goals(source, "action", action),
        }
        return _LayoutMerge(
            source,
            goals,
            self._plan_dimensions(source, "state", state),
            self._plan_dimensions(source, "action", action),
            tuple(self._describe_changes(source, goals, episode)),
        )

    def _goals(self, source: PlannedSource, kind: PaddedKind, names: Sequence[str]) -> dict[str, str]:
        """What names become: what the plan says, else themselves where no other one becomes that; "" is left out."""
        mapping = source.parts[kind]
        stated = {mapping[name] for name in names if name in mapping}
        known = {*self.plan.targets[kind]} - stated
        return {name: mapping.get(name, name if name in known else "") for name in names}

    def _plan_dimensions(
        self, source: PlannedSource, kind: PaddedKind, names: Sequence[str]
    ) -> DimensionPlan:
        return plan_dimensions(list(names), self._goals(source, kind, names), self.plan.targets[kind])

    def _describe_changes(self, source: PlannedSource, goals: _Goals, episode: Episode) -> Iterator[str]:
        """What the plan changes in the episodes of a source, in words."""
        for kind, mapping in goals.items():
            renamed = [f"{name} is {goal}" for name, goal in mapping.items() if goal not in ("", name)]
            padded = [goal for goal in self.plan.targets[kind] if goal not in mapping.values()]
            if renamed:
                yield f"{kind} of {source.label} renamed: {', '.join(renamed)}"
            if padded:
                what = "black pictures" if kind == "camera" else "zeros"
                warning = "; most trainers read no mask, and learn the zeros" if kind == "action" else ""
                yield f"{kind} of {source.label} padded with {what}: {', '.join(padded)}{warning}"
        for camera in episode.cameras:
            planned = self.plan.cameras.get(goals["camera"][camera.name])
            if planned and (camera.width, camera.height) != (planned.width, planned.height):
                yield (
                    f"camera {camera.name} of {source.label}: {camera.width}x{camera.height} fitted into "
                    f"{planned.width}x{planned.height}"
                )

    def _rename_cameras(self, episode: Episode, goals: Mapping[str, str]) -> Sequence[Camera]:
        """The cameras that stay, in the order of the merged dataset, each with its size there."""
        by_goal = {goals[camera.name]: camera for camera in episode.cameras}
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
    renamed = {names.get(name, name): facts for name, facts in depth.items() if names.get(name, name)}
    return {**metadata, DEPTH_CAMERAS: renamed}


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


def _mask_signal(
    names: tuple[str, ...], origins: Mapping[str, str], earlier: Signal | None, steps: int
) -> Signal:
    """(T, D) 1 for what is its own of the merged dataset, 0 for what was padded, now or in an earlier merge.

    Args:
        names: What the merged dataset has.
        origins: For each of these that the source has, its name there.
        earlier: The mask of the source, where that is a merged dataset itself.
        steps: T.
    """
    import numpy as np

    values = np.zeros((steps, len(names)), np.float32)
    known = {} if earlier is None else dict(zip(earlier.names, earlier.values.T, strict=True))
    for number, name in enumerate(names):
        if name in origins:
            values[:, number] = known.get(origins[name], 1)
    return Signal(values, names)


class MergeConverter:
    """Renames, converts and pads the episodes of a set: what an export with a plan has for its `SetConverter`.

    Args:
        plan: The plan.
        contracts: What the signals of the set mean, by their names in the sources, with samples.
        conversions: Conversions that a user names besides those of the plan.

    Attributes:
        unknown: What of the meaning of signals is not known.
        layouts: What they mean after the conversions, by their names in the merged dataset.

    Raises:
        ClashError: Signals of the merged dataset mean different things, or sources share nothing with it.
        RequestError: A conversion cannot be made.
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
        refusals = [*_same_names(renamed), *_foreign_robots(plan, contracts, renamed)]
        try:
            self._conversion = SetConverter(
                renamed, parse_conversions((*plan.convert, *conversions)), is_merged=True
            )
        except ClashError as error:
            refusals += error.lines
        if refusals:
            raise ClashError("the sources do not become one dataset", " | ".join(refusals), tuple(refusals))
        self.unknown, self.layouts = self._conversion.unknown, self._conversion.layouts

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the plan leaves out, in words."""
        return self._applier.left_out

    def apply(self, episode: Episode, trajectory: Trajectory) -> tuple[Episode, Trajectory] | None:
        """An episode as it is exported; None where the plan does not use its source.

        Raises SourceError as `MergeApplier` and `SetConverter` do.
        """
        if not self._applier.uses(episode):
            return None
        renamed, signals = self._applier.rename(episode), self._applier.select(episode, trajectory)
        return self._applier.pad(episode, *self._conversion.apply(renamed, signals))

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

    A text about a camera that is left out is about none that is exported.

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


def _same_names(layouts: Sequence[LayoutContract]) -> Iterator[str]:
    """Two kinds of episodes of one dataset could not be converted apart any more."""
    counts = Counter((layout.key, layout.state_names, layout.action_names) for layout in layouts)
    for (key, state, action), count in counts.items():
        if count > 1 and (state or action):
            yield (
                f"the plan gives {count_of(count, 'kind')} of episodes of {key.dataset} the same names: their units "
                "may differ; ingest them as separate datasets"
            )


def _foreign_robots(
    plan: MergePlan, contracts: Sequence[LayoutContract], renamed: Sequence[LayoutContract]
) -> Iterator[str]:
    """Sources none of whose dimensions are in the merged dataset, in one line."""
    has_names = {layout.key for layout in contracts if layout.state_names or layout.action_names}
    shared = {layout.key for layout in renamed if layout.state_names or layout.action_names}
    foreign = dict.fromkeys(
        layout.key.dataset for layout in renamed if layout.key in has_names and layout.key not in shared
    )
    if foreign and (plan.state or plan.action):
        yield (
            f"{', '.join(foreign)}: no dimension is one of the merged dataset; map some in a plan (`--write-plan`), "
            "leave it out (`use: false`), or export without a plan, a folder for each robot"
        )
