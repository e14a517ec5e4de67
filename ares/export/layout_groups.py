"""Groups the episodes of a set by equal layout, and exports each group as a separate dataset."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import NamedTuple, TypeVar

from ares.console import count_of
from ares.episode import DEPTH_CAMERAS, SIGNAL_TYPES, Episode, Json, Span, Trajectory
from ares.errors import AresError
from ares.export.base import (
    NO_TASKS,
    PLAN_FILE,
    EpisodeTaskText,
    ExportFailures,
    ExportManifest,
    ExportRate,
    ExportReport,
    ExportRequest,
    annotator_values,
    find_segment_producers,
    make_export_report,
    open_span_texts,
)
from ares.export.retime import (
    ClockChanges,
    RetimedEpisode,
    check_exportable,
    describe_part,
    join_measured_rates,
    retime_episode,
)
from ares.export.run import NO_SIDE, ExportReader, member_tasks
from ares.export.segments import (
    EpisodeSegments,
    PlannedTexts,
    SegmentCounts,
    SegmentReader,
    tasks_of_steps,
)
from ares.export.signal_columns import SignalColumn, join_columns, source_column
from ares.export.staging import staging_folder
from ares.imitation import find_needs

# Fields of the sources' metadata that are counted and listed at most.
_MOST_FIELDS, _LISTED_FIELDS = 1000, 24
# Group number of an episode that is not exported.
NO_GROUP = -1


class ExportLayout(NamedTuple):
    """Rate, signals and cameras (name, width, height), which are equal for all episodes of a dataset."""

    rate_hz: float
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    cameras: tuple[tuple[str, int, int], ...]

    def __str__(self) -> str:
        cameras = ", ".join(f"{name} {width}x{height}" for name, width, height in self.cameras)
        return (
            f"{self.rate_hz:g} Hz, state {len(self.state_names)}, action {len(self.action_names)}, "
            f"cameras {cameras or 'none'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthVideo:
    """The depth of one camera of an episode, as its source has it in a video.

    Attributes:
        path: The file.
        start_seconds: First second of the episode in it.
        num_frames: Steps of the episode.
        rate_hz: Steps per second.
        facts: What the source says of its range, its unit and its pixels.
    """

    path: str
    start_seconds: float
    num_frames: int
    rate_hz: float
    facts: Mapping[str, Json]


@dataclass(slots=True)
class DatasetGroup:
    """Counts over the episodes that become one dataset.

    Attributes:
        layout: Their common layout; where records are copied, that of the first.
        origin: Folder of the source dataset whose records are copied, "" where they are rewritten.
        datasets: Episodes per source dataset.
        episodes: Number of episodes.
        frames: Steps over all of them.
        episodes_with_reward: Episodes that have a reward.
        robots: Names of their robots.
        extra_signals: Signals besides state, action and reward, with the names of their dimensions, and the number
            of episodes that have them.
        signal_columns: How the sources have each of them.
        metadata_fields: Fields of the sources' metadata, which the export has no place for.
        episodes_with_texts: Episodes with more than one instruction.
        camera_flags: Per camera and flag, the number of episodes.
        camera_roles: Role of each camera in the first episode that has it.
        has_assumed_rate: Whether the rate of any episode is assumed.
        depth_cameras: Number of episodes by camera of which the source has depth.
        depth_videos: Depth that sources have as videos, by camera.
        copied_depth: Cameras whose depth the export has too.
        episodes_with_segments: Episodes of which segments are written.
        episodes_with_subtasks: Episodes of which subtasks are.
        corrected_outcomes: Episodes of whose outcome people say something else than the source.
    """

    layout: ExportLayout
    origin: str = ""
    datasets: Counter[str] = field(default_factory=Counter)
    episodes: int = 0
    frames: int = 0
    episodes_with_reward: int = 0
    robots: set[str] = field(default_factory=set)
    extra_signals: Counter[tuple[str, tuple[str, ...]]] = field(default_factory=Counter)
    signal_columns: dict[str, set[SignalColumn]] = field(default_factory=dict)
    metadata_fields: set[str] = field(default_factory=set)
    episodes_with_texts: int = 0
    camera_flags: dict[str, Counter[str]] = field(default_factory=dict)
    camera_roles: dict[str, str] = field(default_factory=dict)
    has_assumed_rate: bool = False
    depth_cameras: Counter[str] = field(default_factory=Counter)
    depth_videos: dict[str, list[DepthVideo]] = field(default_factory=dict)
    copied_depth: tuple[str, ...] = ()
    episodes_with_segments: int = 0
    episodes_with_subtasks: int = 0
    corrected_outcomes: int = 0

    @property
    def rate_hz(self) -> float:
        """Frames per second; an int where they are a whole number."""
        rate_hz = self.layout.rate_hz
        return int(rate_hz) if rate_hz.is_integer() else rate_hz

    @property
    def has_reward(self) -> bool:
        """Whether every episode has a reward, which a column needs."""
        return self.episodes_with_reward == self.episodes

    @property
    def name(self) -> str:
        """The source dataset that most of its episodes come from."""
        return self.datasets.most_common(1)[0][0]

    def is_black(self, camera: str) -> bool:
        """Whether a camera is black in every episode."""
        return self.camera_flags[camera]["black"] == self.episodes

    @property
    def cameras(self) -> list[str]:
        """Cameras to export."""
        return [name for name, _, _ in self.layout.cameras if not self.is_black(name)]

    @property
    def common_signals(self) -> dict[str, tuple[str, ...]]:
        """Names of the dimensions of each extra signal that every episode has."""
        return {
            name: names
            for (name, names), count in sorted(self.extra_signals.items())
            if count == self.episodes
        }

    @property
    def common_columns(self) -> dict[str, SignalColumn]:
        """How each of these is written: as in the source, or as float32 of its name where sources differ."""
        return {
            name: join_columns(self.signal_columns[name], name, len(names))
            for name, names in self.common_signals.items()
        }

    def left_out(self, signals: Collection[str] = (), has_robots: bool = False) -> list[str]:
        """Descriptions of the data that is in the source and not in the export; none where records are copied.

        Args:
            signals: Extra signals that the export has.
            has_robots: Whether it has the robot of each episode.
        """
        if self.origin:
            return []
        name = self.name
        black_cameras = [camera for camera, _, _ in self.layout.cameras if self.is_black(camera)]
        lines = [f"camera {camera} of {name}: black in every episode" for camera in black_cameras]
        if 0 < self.episodes_with_reward < self.episodes:
            lines.append(
                f"reward of {name}: only {self.episodes_with_reward} of {count_of(self.episodes, 'episode')} have one"
            )
        lines += [
            f"signal {signal} of {name}{self._describe_share(signal)}"
            for signal in sorted(self.signal_columns.keys() - set(signals))
        ]
        lines += [
            f"depth of camera {camera} of {name}: {count_of(count, 'episode')} have it"
            for camera, count in sorted(self.depth_cameras.items())
            if camera not in self.copied_depth
        ]
        return lines + list(self._left_out_texts(has_robots))

    def _describe_share(self, signal: str) -> str:
        counts = [count for (name, _), count in self.extra_signals.items() if name == signal]
        if sum(counts) < self.episodes:
            return f": only {sum(counts)} of {count_of(self.episodes, 'episode')} have it"
        differs = len(counts) > 1
        return f": {'its dimensions differ between episodes' if differs else 'its name has another meaning there'}"

    def _left_out_texts(self, has_robots: bool) -> Iterator[str]:
        """What the source says of the episodes in words, and the export does not."""
        if len(self.robots) > 1 and not has_robots:
            robots = ", ".join(sorted(self.robots - {""}))
            yield f"robot of {self.name}: the episodes have several, or none ({robots})"
        if self.episodes_with_texts:
            yield f"further instructions of {self.name}: {count_of(self.episodes_with_texts, 'episode')} have some"
        if fields := sorted(self.metadata_fields):
            more = f" and {len(fields) - _LISTED_FIELDS} more" if len(fields) > _LISTED_FIELDS else ""
            yield f"metadata of {self.name}: {', '.join(fields[:_LISTED_FIELDS])}{more}"

    def add(self, retimed: RetimedEpisode, trajectory: Trajectory, texts: PlannedTexts) -> None:
        """Count an episode."""
        episode = retimed.episode
        self.episodes_with_segments += texts.segments > 0
        self.episodes_with_subtasks += texts.has_subtasks
        self.datasets[episode.dataset] += 1
        self.episodes += 1
        self.frames += episode.num_steps
        self.episodes_with_reward += trajectory.reward is not None
        self.robots.add(episode.robot)
        self.has_assumed_rate |= episode.rate_source == "assumed"
        for name, signal in trajectory.extra.items():
            self.extra_signals[name, signal.names] += 1
            column = source_column(episode, name, signal)
            self.signal_columns.setdefault(name, set()).add(column)
        self.episodes_with_texts += len(episode.instructions) > 1
        self.corrected_outcomes += "success" in episode.recorded
        depth = episode.metadata.get(DEPTH_CAMERAS)
        self.depth_cameras.update(depth.keys() if isinstance(depth, Mapping) else ())
        # Depth is copied for whole episodes only.
        for name, video in ({} if retimed.is_cut else read_depth_videos(episode)).items():
            self.depth_videos.setdefault(name, []).append(video)
        if len(self.metadata_fields) < _MOST_FIELDS:
            self.metadata_fields.update(episode.metadata.keys() - {SIGNAL_TYPES})
        for camera in episode.cameras:
            self.camera_flags.setdefault(camera.name, Counter()).update(camera.flags)
            self.camera_roles.setdefault(camera.name, camera.role)


def read_depth_videos(episode: Episode) -> dict[str, DepthVideo]:
    """The depth of each camera that the source of an episode has as a span of a video."""
    depth = episode.metadata.get(DEPTH_CAMERAS)
    videos = {
        name: _read_depth_video(episode, facts)
        for name, facts in (depth.items() if isinstance(depth, Mapping) else ())
        if isinstance(facts, Mapping)
    }
    return {name: video for name, video in videos.items() if video is not None}


def _read_depth_video(episode: Episode, facts: Mapping[str, Json]) -> DepthVideo | None:
    """The depth of a camera where it is a span of a video file; None elsewhere."""
    path, start = facts.get("path"), facts.get("start_seconds")
    if not isinstance(path, str) or not isinstance(start, int | float) or isinstance(start, bool):
        return None
    location = ("path", "start_seconds", "stop_seconds")
    return DepthVideo(
        path=path,
        start_seconds=float(start),
        num_frames=episode.num_steps,
        rate_hz=episode.rate_hz,
        facts={name: value for name, value in facts.items() if name not in location},
    )


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """The datasets to write.

    Attributes:
        groups: One per dataset.
        folders: Folder of each group inside the export; "." when there is only one.
        group_numbers: For each member of the set, in its order, the number of its group, or NO_GROUP.
        sides: For each of them the split that it is written in.
    """

    groups: list[DatasetGroup]
    folders: list[str]
    group_numbers: list[int]
    sides: list[str]

    def sides_of(self, number: int) -> list[str]:
        """The splits of a group in the order in which they are written: "train" first, those without a side last."""
        sides = set(compress(self.sides, (group == number for group in self.group_numbers)))
        return sorted(sides, key=lambda side: (side == NO_SIDE, side != "train", side))


# The folder of the dataset that the record of an episode is copied from, "" to rewrite it; of an episode as it is
# written, and what was converted in its signals.
FindOrigin = Callable[[RetimedEpisode, Sequence[str]], str]


def rewrite_every_episode(retimed: RetimedEpisode, reasons: Sequence[str]) -> str:
    """Every episode is rewritten."""
    return ""


def plan_datasets(
    request: ExportRequest,
    reader: ExportReader,
    failures: ExportFailures,
    clock: ExportRate,
    find_origin: FindOrigin,
    segments: SegmentReader | None,
    span_texts: SegmentReader | None,
) -> ExportPlan:
    """Group the episodes of a set by layout; those that cannot be exported are added to the failures.

    Args:
        request: Says what is to be the task.
        reader: Reads the set.
        failures: Where episodes are added that cannot be exported.
        clock: The rate to write.
        find_origin: Says of which dataset an episode's record is copied; such episodes are grouped by the dataset.
        segments: Reads the segments that are written; None where there are none.
        span_texts: Reads the texts of spans; None where none is written.

    Raises:
        MediaError: No episode can be exported, or with `strict` one cannot.
        RequestError: With `strict`, the episodes lack something for imitation learning.
    """
    groups: dict[tuple[ExportLayout | float, str], DatasetGroup] = {}
    numbers: dict[tuple[ExportLayout | float, str], int] = {}
    group_numbers: list[int] = []
    sides: list[str] = []
    for batch in reader.member_batches(failures):
        number_by_name: dict[str, int] = {}
        side_by_name = {name: reader.side_of(episode) for name, episode, _ in batch.members}
        planned = segments.plan(batch.ids) if segments else {}
        annotations = reader.stores.annotations.find_annotations(batch.ids) if span_texts else ()
        tasks = member_tasks(request, batch, reader.stores, span_texts, list(annotations))
        for name, episode, span in batch.members:
            trajectory = batch.trajectories[episode.episode_id]
            try:
                check_exportable(episode, trajectory)
                retimed = retime_episode(episode, trajectory, clock, span)
            except AresError as error:
                failures.add(name, error)
                continue
            layout, texts = episode_layout(retimed.episode), planned.get(episode.episode_id, PlannedTexts())
            reasons = batch.reasons.get(episode.episode_id, ())
            # A record of the source has the texts of the source alone.
            origin = "" if texts.has_added else find_origin(retimed, reasons)
            key = (layout.rate_hz if origin else layout, origin)
            groups.setdefault(key, DatasetGroup(layout, origin)).add(retimed, trajectory, texts)
            number_by_name[name] = numbers.setdefault(key, len(numbers))
            failures.needs.add(find_needs(retimed.episode, trajectory, tasks[name].task.text))
        group_numbers += [number_by_name.get(name, NO_GROUP) for name in batch.requested_ids]
        sides += [sys.intern(side_by_name.get(name, "")) for name in batch.requested_ids]
    failures.check(len(group_numbers))
    datasets = list(groups.values())
    return ExportPlan(datasets, _folder_names(datasets), group_numbers, sides)


def episode_layout(episode: Episode) -> ExportLayout:
    """The layout of one episode."""
    return ExportLayout(
        rate_hz=episode.rate_hz,
        state_names=episode.state_names,
        action_names=episode.action_names,
        cameras=tuple(sorted((camera.name, camera.width, camera.height) for camera in episode.cameras)),
    )


def _folder_names(groups: list[DatasetGroup]) -> list[str]:
    """A folder name per group; further groups of the same dataset get a number."""
    if len(groups) == 1:
        return ["."]
    uses: Counter[str] = Counter()
    folders = []
    for group in groups:
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", group.name).strip(".") or "dataset"
        uses[name] += 1
        folders.append(name if uses[name] == 1 else f"{name}-{uses[name]}")
    return folders


def _say_why_apart(plan: ExportPlan, number: int) -> str:
    """What a dataset has otherwise than an earlier one of its name, whose folder has no number; "" for the first."""
    group, later = plan.groups[number], plan.groups[number].layout
    first = next(n for n, other in enumerate(plan.groups) if other.name == group.name)
    other = plan.groups[first].layout
    if first == number:
        return ""
    sizes, other_sizes = ({name: f"{w}x{h}" for name, w, h in layout.cameras} for layout in (later, other))
    values = (
        ("rate", f"{later.rate_hz:g} Hz", f"{other.rate_hz:g} Hz"),
        ("dimensions of state", ", ".join(later.state_names), ", ".join(other.state_names)),
        ("dimensions of action", ", ".join(later.action_names), ", ".join(other.action_names)),
        ("cameras", ", ".join(sizes), ", ".join(other_sizes)),
        *(
            (f"size of {name}", size, other_sizes[name])
            for name, size in sizes.items()
            if name in other_sizes
        ),
        ("folder of its records", group.origin, plan.groups[first].origin),
    )
    differing = [f"{what} {new or 'none'}, not {old or 'none'}" for what, new, old in values if new != old]
    return f"{'; '.join(differing)} as in {plan.folders[first]}"


T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class ExportItem:
    """An episode to write.

    Attributes:
        retimed: The episode at the rate of the export.
        task: Its task.
        values: By column, what annotators say of it.
        reasons: What was converted in its signals.
        texts: Its segments that are written.
        span: The part of the episode that is a member of the set; None for all of it.
        task_withheld: Why the text of the segment of the span is not the task, or "".
        side: The split that it is written in.
    """

    retimed: RetimedEpisode
    task: EpisodeTaskText
    values: dict[str, Json]
    reasons: Sequence[str]
    texts: EpisodeSegments = field(default_factory=EpisodeSegments)
    span: Span | None = None
    task_withheld: str = ""
    side: str = "train"

    @property
    def member(self) -> str:
        """What the set lists: the id of the episode, or the line of the span."""
        return self.span.line if self.span else self.retimed.episode.episode_id


@dataclass(slots=True)
class DatasetCounts:
    """What has been written of one dataset, as `ExportReport` has it; `tasks` numbers texts in order of appearance.

    `sides` counts the episodes of each split, in the order in which they were written.
    """

    episodes: int = 0
    frames: int = 0
    tasks: dict[str, int] = field(default_factory=dict)
    task_sources: Counter[str] = field(default_factory=lambda: Counter(NO_TASKS))
    sides: Counter[str] = field(default_factory=Counter)
    copied_packets: int = 0
    encoded_frames: int = 0
    copied_records: int = 0
    reencoded: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    segments: SegmentCounts = field(default_factory=SegmentCounts)

    def add(self, item: ExportItem) -> tuple[list[str], int | list[int]]:
        """Count an episode; returns its tasks, and the number of its task, of each step where these differ."""
        texts = tasks_of_steps(item.texts.segments, item.task.text, item.retimed)
        tasks = list(dict.fromkeys(texts)) or [item.task.text]
        by_text = {text: self.tasks.setdefault(text, len(self.tasks)) for text in tasks}
        self.task_sources[item.task.source] += 1
        self.sides[item.side] += 1
        if item.texts.segments or item.texts.withheld:
            self.segments.add(item.texts)
        if item.task_withheld:
            self.segments.task_withheld[item.task_withheld] += 1
        self.episodes += 1
        self.frames += item.retimed.episode.num_steps
        return tasks, [by_text[text] for text in texts] or by_text[item.task.text]


@dataclass(frozen=True, slots=True)
class GroupedExport:
    """An export that is being written."""

    request: ExportRequest
    clock: ExportRate
    reader: ExportReader
    root: Path
    manifest: ExportManifest
    failures: ExportFailures
    changes: ClockChanges
    progress: Callable[[int], None]
    segments: SegmentReader | None
    span_texts: SegmentReader | None

    def items(self, plan: ExportPlan, number: int) -> Iterator[ExportItem]:
        """The episodes of one group, by side and in the order of the set; one batch at a time is in memory."""
        for side in plan.sides_of(number):
            assigned = zip(plan.group_numbers, plan.sides, strict=True)
            yield from self._items_of_side(side, (pair == (number, side) for pair in assigned))

    def _items_of_side(self, side: str, selected: Iterator[bool]) -> Iterator[ExportItem]:
        """The members of the set that are selected, which have one side."""
        stores, members = self.reader.stores, compress(self.reader.members(), selected)
        for batch in self.reader.member_batches(self.failures, members):
            annotations = stores.annotations.find_annotations(batch.ids)
            self.manifest.maker_ids.update(annotation.maker_id for annotation in annotations)
            texts = self.segments.read(batch.ids, annotations) if self.segments else {}
            if self.request.plan is not None:
                from ares.export.merge_apply import rename_text_cameras

                texts = rename_text_cameras(self.request.plan, batch.episodes, texts)
            values = dict(zip(batch.ids, rows := annotator_values(stores, batch.ids), strict=True))
            tasks = member_tasks(self.request, batch, stores, self.span_texts, annotations, rows)
            for name, episode, span in batch.members:
                id, (task, withheld) = episode.episode_id, tasks[name]
                retimed = retime_episode(episode, batch.trajectories[id], self.clock, span)
                segments, reasons = texts.get(id, EpisodeSegments()), batch.reasons.get(id, ())
                item = ExportItem(retimed, task, values[id], reasons, segments, span, withheld, side)
                yield _make_span_item(item) if span else item

    def note_written(self, item: ExportItem, folder: str, number: int) -> None:
        """Note that an episode is written as the one of a number in a dataset folder."""
        written = item.retimed.episode
        part = describe_part(item.span, item.retimed.kept, written.num_steps) if item.span else None
        self.manifest.add(written, folder, number, part)
        self.changes.add(item.retimed)
        self.reader.conversion.count(item.reasons)


def _make_span_item(item: ExportItem) -> ExportItem:
    """The item of a span: its text is the instruction, and of a part nothing is known that is said of the whole."""
    retimed, values, texts = item.retimed, item.values, item.texts
    if item.task.source == "segment":
        episode = replace(retimed.episode, instruction=item.task.text, instructions=(item.task.text,))
        retimed = replace(retimed, episode=episode)
    if retimed.is_cut and not (item.span and item.span.stands_for_episode):
        values = {**dict.fromkeys(values), "episode_id": retimed.episode.episode_id}
    if retimed.is_cut:
        start, last = float(retimed.stamps[retimed.kept.start]), float(retimed.stamps[retimed.kept.stop - 1])
        texts = texts.within(start, last + 1 / retimed.source.rate_hz)
    return replace(item, retimed=retimed, values=values, texts=texts)


@dataclass(frozen=True, slots=True)
class GroupedFormat:
    """A format that is written group by group.

    Attributes:
        name: Name and version, as the manifest has them.
        write_dataset: Writes one group into its folder, by a partial in the exporter; an episode that fails is added
            to the failures.
        folders: Folder of each group inside the export; None for those of `plan_datasets`.
        find_origin: Says which episodes are copied, see `plan_datasets`.
        left_out: Describes the data of a group that the format leaves out.
        has_segments: Whether it writes segments.
    """

    name: str
    write_dataset: Callable[[GroupedExport, ExportPlan, int], DatasetCounts]
    folders: Callable[[ExportPlan], list[str]] | None = None
    find_origin: FindOrigin = rewrite_every_episode
    left_out: Callable[[DatasetGroup], list[str]] = DatasetGroup.left_out
    has_segments: bool = False


def export_groups(
    request: ExportRequest, reader: ExportReader, progress: Callable[[int], None], format: GroupedFormat
) -> ExportReport:
    """Write a set in a format, one dataset after the other; see `Exporter` for what is raised."""
    start = time.monotonic()
    stores = reader.stores
    with staging_folder(request.destination) as root:
        failures = ExportFailures(root, request.strict, request.least_episodes)
        clock = join_measured_rates(request.clock, reader)
        producers = find_segment_producers(stores, request) if format.has_segments else {}
        segments = SegmentReader(stores, producers, request.released_states) if producers else None
        texts = open_span_texts(stores, request)
        plan = plan_datasets(request, reader, failures, clock, format.find_origin, segments, texts)
        if format.folders is not None:
            plan = replace(plan, folders=format.folders(plan))
        progress(plan.group_numbers.count(NO_GROUP))
        with ExportManifest(root, stores, request, format.name) as manifest:
            changes = ClockChanges(clock)
            export = GroupedExport(
                request, clock, reader, root, manifest, failures, changes, progress, segments, texts
            )
            written = [format.write_dataset(export, plan, number) for number in range(len(plan.groups))]
            failures.check(len(plan.group_numbers))
            groups_left_out = [line for group in plan.groups for line in format.left_out(group)]
            report = _make_export_report(export, plan, written, groups_left_out, time.monotonic() - start)
            if request.plan is not None:
                request.plan.write(root / PLAN_FILE)
            if reader.weights is not None:
                reader.weights.write(root)
            manifest.write(report)
    return report


# The counts of `ExportReport` that are sums over the datasets.
_SUMMED_COUNTS = ("episodes", "frames", "copied_packets", "encoded_frames", "copied_records")


def _make_export_report(
    export: GroupedExport,
    plan: ExportPlan,
    written: Sequence[DatasetCounts],
    groups_left_out: Sequence[str],
    seconds: float,
) -> ExportReport:
    texts = [f"{text}: {count_of(n, 'episode')}" for counts in written for text, n in counts.left_out.items()]
    segments, sources, sides = SegmentCounts(), Counter(NO_TASKS), Counter[str]()
    for counts in written:
        sources.update(counts.task_sources)
        sides.update(counts.sides)
        if export.segments or export.span_texts:
            segments.merge(counts.segments)
    notes = export.reader.notes
    return make_export_report(
        export.request,
        export.failures,
        seconds,
        tasks=len({task for counts in written for task in counts.tasks}),
        left_out=(*export.reader.conversion.left_out, *notes.left_out, *groups_left_out, *texts),
        datasets=tuple(
            {
                "path": folder,
                "episodes": counts.episodes,
                "frames": counts.frames,
                "tasks": len(counts.tasks),
                **({"why_apart": why} if (why := _say_why_apart(plan, number)) else {}),
            }
            for number, (folder, counts) in enumerate(zip(plan.folders, written, strict=True))
            if counts.episodes
        ),
        changed=(*notes.changed, *export.changes.to_json(), *export.reader.conversion.to_json()),
        unknown=(*export.reader.conversion.unknown, *notes.unknown),
        segments=segments.to_json() if export.segments or export.span_texts else {},
        task_sources=dict(sources),
        sides=dict(sides),
        reencoded=dict(sum((counts.reencoded for counts in written), Counter[str]())),
        **{name: sum(getattr(counts, name) for counts in written) for name in _SUMMED_COUNTS},
    )


def prefetched(items: Iterator[T], count: int) -> Iterator[T]:
    """Yield the same items, each taken from the iterator `count` items ahead of its use."""
    waiting: deque[T] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting
