"""An episode as a user gets it, by id or as a hit of a search, and how it shows itself in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ares.annotation import Annotation
from ares.console import count_of, visible
from ares.episode import Camera, Episode, Trajectory
from ares.errors import AresError, RequestError
from ares.registry import explain_mistakes
from ares.search import Hit
from ares.workspace.printed_tables import ResultTable, html_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import StoredSegment, Stores


# A larger video would make the notebook slow to open: only its path is shown.
_MAX_INLINE_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayableVideo:
    """An mp4 of one camera of an episode; functions that take a path take it.

    Attributes:
        path: The file: the source itself, or one in the media cache of the workspace.
    """

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        """A player with the video inside the page, or the path of a large one."""
        if self.path.stat().st_size > _MAX_INLINE_BYTES:
            return f"<code>{escape(str(self.path))}</code>"
        data = base64.b64encode(self.path.read_bytes()).decode()
        return f'<video controls muted loop width="320" src="data:video/mp4;base64,{data}"></video>'


_POSTER_PIXELS = 160


def poster_html(stores: Stores, episode: Episode, camera: Camera) -> str:
    """A picture from the middle of an episode; a short text where it cannot be read."""
    from ares.clock import camera_seconds
    from ares.media import thumbnail

    try:
        (second,) = camera_seconds(
            episode,
            camera,
            [episode.duration_seconds / 2],
            lambda: stores.tables.trajectories.get(episode.episode_id).timestamps,
        )
        path = thumbnail(camera.media, second, _POSTER_PIXELS, stores.media_cache)
        data = base64.b64encode(Path(path).read_bytes()).decode()
    except (AresError, OSError) as error:
        return f'<small title="{escape(str(error))}">no picture</small>'
    return f'<img width="{_POSTER_PIXELS}" alt="{escape(camera.name)}" src="data:image/jpeg;base64,{data}">'


def best_poster_html(stores: Stores, episode: Episode) -> str:
    """The poster of the best camera; "" without cameras."""
    cameras = episode.good_cameras
    return poster_html(stores, episode, cameras[0]) if cameras else ""


class SegmentList(ResultTable["StoredSegment"]):
    """Segments of one or several episodes."""

    shown: ClassVar[Mapping[str, Callable[[StoredSegment], object]]] = {
        "episode": lambda segment: segment.episode_id,
        "start": lambda segment: segment.start_seconds,
        "end": lambda segment: segment.stop_seconds,
        "style": lambda segment: segment.style,
        "author": lambda segment: segment.author,
        "text": lambda segment: segment.text,
        "grade": lambda segment: segment.grade,
        "by": lambda segment: segment.annotator,
    }


_EPISODE_FIELDS = tuple(item.name for item in fields(Episode))
_POSTERS = 4
# The end of an episode, computed as number / rate, may be so much later.
_ROUNDING_SECONDS = 1e-3


@explain_mistakes
@dataclass(frozen=True, kw_only=True, repr=False)
class StoredEpisode(Episode):
    """An episode with access to what the workspace has of it.

        >>> episode = ws.episodes["3f2a"]
        >>> episode.instruction, episode.success, episode.duration_seconds
        >>> episode.frames("front", [0.0, 1.5]).shape
        (2, 480, 640, 3)
        >>> episode.trajectory.to_pandas()

    Two are equal when all fields of the episode are equal.
    """

    _stores: Stores = field(compare=False)

    @classmethod
    def from_episode(cls, episode: Episode, stores: Stores) -> StoredEpisode:
        """The episode with access to these stores."""
        return cls(**{name: getattr(episode, name) for name in _EPISODE_FIELDS}, _stores=stores)

    def __hash__(self) -> int:
        return hash(self.episode_id)

    @property
    def camera_names(self) -> tuple[str, ...]:
        """Names of its cameras, which `frames` and `video` take."""
        return tuple(camera.name for camera in self.cameras)

    @cached_property
    def trajectory(self) -> Trajectory:
        """Its signals, read when they are first used."""
        return self._stores.tables.trajectories.get(self.episode_id)

    @cached_property
    def annotations(self) -> tuple[Annotation, ...]:
        """Everything that annotators and people have said of it, oldest first, read when first used."""
        return tuple(self._stores.annotations.find_annotations([self.episode_id]))

    @cached_property
    def segments(self) -> SegmentList:
        """Its spans with what is said of them, in order of time, whoever made them, read when first used.

        >>> [segment.text for segment in episode.segments if segment.style == "subtask"]
        """
        from ares.store import ids_filter, make_stored_segments

        rows = self._stores.tables.segments.read(ids_filter([self.episode_id]))
        return SegmentList(make_stored_segments(rows))

    def frames(
        self, camera: str | Camera = "", seconds: float | Iterable[float] | None = None
    ) -> NDArray[np.uint8]:
        """Pictures of a camera: (N, H, W, 3) uint8 RGB.

            >>> episode.frames("front", [0.0, 1.5, 3.0])

        Args:
            camera: Name of the camera; by default the best one.
            seconds: Seconds from the start, in any order; by default every frame, which may take much memory.

        Raises:
            RequestError: There is no such camera, or a second is outside the episode.
            MediaError: The frames cannot be read.
        """
        import numpy as np

        from ares.clock import camera_seconds
        from ares.media import all_frames, frames_at

        selected = self._camera(camera)
        if seconds is None:
            return np.stack(list(all_frames(selected.media)))
        listed = seconds if isinstance(seconds, int | float | np.ndarray) else list(seconds)
        checked = self._check_seconds(np.atleast_1d(np.asarray(listed, np.float64)).tolist())
        shown = camera_seconds(self, selected, checked, lambda: self.trajectory.timestamps)
        return frames_at(selected.media, shown)

    def video(self, camera: str | Camera = "") -> PlayableVideo:
        """An mp4 of a camera that a browser plays; a notebook shows it as a player.

            >>> episode.video("front").path

        Args:
            camera: Name of the camera; by default the best one.

        Raises:
            RequestError: There is no such camera.
            MediaError: The frames cannot be read.
        """
        from ares.media import browser_video

        media = self._camera(camera).media
        return PlayableVideo(path=browser_video(media, "h264", self._stores.media_cache))

    def plot(self) -> Any:
        """A chart of state and action over the seconds, for a notebook.

        Raises:
            RequestError: It has neither, or the extra `notebook` is not installed.
        """
        from ares.workspace.view_tables import plot_signals

        return plot_signals(self, self.trajectory)

    def to_json(self) -> dict[str, Json]:
        """Everything known of it, as `ares show --json` prints it."""
        from ares.workspace.summary import describe_episode

        return describe_episode(self._stores, self.episode_id)

    def __repr__(self) -> str:
        cameras = ", ".join(camera.name for camera in self.cameras) or "none"
        length = f"{count_of(self.num_steps, 'step')} at {self.rate_hz:g} Hz"
        return (
            f"StoredEpisode({self.episode_id!r}: {self.instruction!r}, {length}, cameras: {visible(cameras)})"
        )

    def _repr_html_(self) -> str:
        """Posters of its cameras, and its main fields, for notebooks."""
        posters = "".join(poster_html(self._stores, self, camera) for camera in self.cameras[:_POSTERS])
        rows = [
            ("episode", self.episode_id),
            ("dataset", f"{self.dataset} {self.split} {self.key}"),
            ("instruction", self.instruction),
            ("success", {True: "yes", False: "no", None: "unknown"}[self.success]),
            ("length", f"{count_of(self.num_steps, 'step')}, {self.duration_seconds:.2f} s"),
            ("cameras", ", ".join(camera.name for camera in self.cameras)),
            *(("depth", text) for text in self.depth_texts),
        ]
        return f"<div>{posters}{html_table(rows, ('', ''))}</div>"

    def _camera(self, camera: str | Camera) -> Camera:
        """A camera by its name, or the best one for ""."""
        name = camera if isinstance(camera, str) else camera.name
        if name:
            return self.camera(name)
        if not self.cameras:
            raise RequestError("the episode has no cameras", f"episode {self.episode_id} has signals only")
        return self.good_cameras[0]

    def _check_seconds(self, seconds: list[float]) -> list[float]:
        for second in seconds:
            if not 0 <= second <= self.duration_seconds + _ROUNDING_SECONDS:
                raise RequestError(
                    f"{second:g} s is outside episode {self.episode_id}",
                    f"it lasts from 0 to {self.duration_seconds:.3f} s",
                )
        return seconds


_HIT_FIELDS = tuple(item.name for item in fields(Hit))


@dataclass(frozen=True, kw_only=True)
class StoredHit(Hit):
    """The best moment of one episode, with access to the episode.

    >>> for hit in ws.search("open the drawer"):
    ...     hit.episode.frames(hit.camera, hit.seconds)
    """

    _stores: Stores = field(compare=False, repr=False)

    @classmethod
    def from_hit(cls, hit: Hit, stores: Stores) -> StoredHit:
        """The hit with access to these stores."""
        return cls(**{name: getattr(hit, name) for name in _HIT_FIELDS}, _stores=stores)

    @cached_property
    def episode(self) -> StoredEpisode:
        """The episode, read when it is first used."""
        return StoredEpisode.from_episode(
            self._stores.tables.episodes.get_episode(self.episode_id), self._stores
        )

    def to_json(self) -> dict[str, Json]:
        """One element of `ares search --json`."""
        return Hit(**{name: getattr(self, name) for name in _HIT_FIELDS}).to_json()
