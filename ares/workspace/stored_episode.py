"""An episode of a workspace: its data, and methods that read its frames, videos, signals and annotations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING

from ares.annotation import Annotation
from ares.episode import Camera, Episode, Trajectory
from ares.errors import RequestError
from ares.workspace.display import PlayableVideo, html_table, poster_html

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import Stores

_EPISODE_FIELDS = tuple(item.name for item in fields(Episode))
_POSTERS = 4
# The end of an episode, computed as number / rate, may be so much later.
_ROUNDING_SECONDS = 1e-3


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

    def to_json(self) -> dict[str, Json]:
        """Everything known of it, as `ares show --json` prints it."""
        from ares.summary import describe_episode

        return describe_episode(self._stores, self.episode_id)

    def __repr__(self) -> str:
        cameras = ", ".join(camera.name for camera in self.cameras) or "none"
        length = f"{self.num_steps} steps at {self.rate_hz:g} Hz"
        return f"StoredEpisode({self.episode_id!r}: {self.instruction!r}, {length}, cameras: {cameras})"

    def _repr_html_(self) -> str:
        """Posters of its cameras, and its main fields, for notebooks."""
        posters = "".join(poster_html(self._stores, self, camera) for camera in self.cameras[:_POSTERS])
        rows = [
            ("episode", self.episode_id),
            ("dataset", f"{self.dataset} {self.split} {self.key}"),
            ("instruction", self.instruction),
            ("success", {True: "yes", False: "no", None: "unknown"}[self.success]),
            ("length", f"{self.num_steps} steps, {self.duration_seconds:.2f} s"),
            ("cameras", ", ".join(camera.name for camera in self.cameras)),
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
