"""An episode as a user gets it, by id or as a hit of a search, and how it shows itself in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, fields
from functools import cached_property, lru_cache, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, SupportsIndex

from ares.annotation import Annotation
from ares.console import count_of, visible
from ares.episode import Camera, Episode, Trajectory
from ares.errors import AresError, EpisodeIndexError, RequestError, UnknownName, WrongArguments
from ares.registry import column_of, read_foreign_names, say_who_makes, suggest_column
from ares.search import Hit
from ares.workspace.foreign_names import MISSING, explain_mistakes, make_refusal, suggest_form
from ares.workspace.printed_tables import ResultTable, html_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import StoredSegment, Stores


# A larger video would make the notebook slow to open: only its path is shown.
_MAX_INLINE_BYTES = 32 * 2**20
_POSTER_PIXELS = 160
_EPISODE_FIELDS = tuple(item.name for item in fields(Episode))
# What an episode has without its columns.
_READ_FIELDS = frozenset({*_EPISODE_FIELDS, "action", "camera_names", "duration_seconds", "state", "tags"})
# Before the name of a camera, in LeRobot.
_IMAGES = "observation.images."
_POSTERS = 4
# The end of an episode, computed as number / rate, may be so much later.
_ROUNDING_SECONDS = 1e-3
_HIT_FIELDS = tuple(item.name for item in fields(Hit))


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


def read_rows(stores: Stores, ids: Sequence[str], version: int) -> dict[str, dict[str, Any]]:
    """All columns by name of some episodes, as far as they are still there, by id; the version is the newest one."""
    from ares.store import ids_filter

    table = stores.tables.episodes
    rows = table.read_columns(list(table.columns()), ids_filter(ids)).to_pylist()
    return {row["episode_id"]: row for row in rows}


@explain_mistakes
class StoredEpisode(Episode):
    """An episode with access to what the workspace has of it.

        >>> episode = ws.episodes["3f2a"]
        >>> episode["instruction"], episode.success, episode.caption, episode.tags, len(episode)
        >>> episode.action.shape, [step["state"] for step in episode]
        >>> episode.frames("front", [0.0, 1.5]).shape
        (2, 480, 640, 3)
        >>> episode.trajectory.to_pandas()

    Each column of `Workspace.episodes` is an attribute, and a value by its name in brackets, as the signals are; a
    number in brackets gives a step. Two are equal when all fields of the episode are equal.
    """

    _called: ClassVar = "ep"
    _stores: Stores
    _rows: Callable[[int], dict[str, dict[str, Any]]]

    @classmethod
    def from_episode(
        cls, episode: Episode, stores: Stores, rows: Callable[[int], dict[str, dict[str, Any]]] | None = None
    ) -> StoredEpisode:
        """The episode with access to these stores, and to columns of a version, read with those of others."""
        stored = cls(**{name: getattr(episode, name) for name in _EPISODE_FIELDS})
        rows = rows or lru_cache(maxsize=1)(partial(read_rows, stores, [episode.episode_id]))
        vars(stored).update(_stores=stores, _rows=rows)
        return stored

    def __reduce__(self) -> tuple[Any, ...]:
        plain = Episode(**{name: getattr(self, name) for name in _EPISODE_FIELDS})
        return self.from_episode, (plain, self._stores)

    def __hash__(self) -> int:
        return hash(self.episode_id)

    def __len__(self) -> int:
        return self.num_steps

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[EpisodeStep]:
        return map(self._step, range(len(self)))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._resolve_name(name) is not MISSING

    def __getitem__(self, key: Any) -> Any:
        """A column or a signal by its name, a step by its number, or a list of steps for a slice.

            >>> episode["num_steps"], episode["observation.state"].shape, episode[-1]["action"]

        Raises:
            UnknownName: There is no such column and no such signal; also a KeyError.
            EpisodeIndexError: There are not so many steps; also an IndexError.
        """
        if isinstance(key, str):
            if (value := self._resolve_name(key)) is not MISSING:
                return value
            known = [*self.keys(), *self._signals, *self["camera_keys"]]
            hint = f"{suggest_column(key, known)}there are: {', '.join(dict.fromkeys(known))}"
            form = read_foreign_names()["ep"].get(key, "")
            raise UnknownName(f"an episode has no {key!r}", f"use {form}" if form else hint)
        try:
            numbers = range(len(self))[key]
        except IndexError:
            raise EpisodeIndexError(f"there is no step {key}", f"the episode has {len(self)}") from None
        except TypeError:
            is_step = isinstance(
                key, EpisodeStep
            )  # what a DataLoader asks for, which takes an episode for a mapping
            hint = "use DataLoader(ws.torch_dataset(view))" if is_step else f"got {key!r}"
            raise WrongArguments("an episode takes a column or the number of a step", hint) from None
        return self._step(numbers) if isinstance(numbers, int) else _StepList(map(self._step, numbers))

    def keys(self) -> list[str]:
        """Names of its columns; `dict(episode)` has their values."""
        return list(self._stores.tables.episodes.columns())

    def get(self, name: str, default: Any = None) -> Any:
        """A column or a signal, or the default where there is none of the name."""
        value = self._resolve_name(name)
        return default if value is MISSING else value

    def to_dict(self) -> dict[str, Any]:
        """Its columns by name: values of Python, and tuples or lists of them."""
        return {name: self[name] for name in self.keys()}

    def _resolve_name(self, name: str) -> Any:
        """A column or a signal, also by its name in other libraries; MISSING for any other."""
        name = column_of(name)
        if name in _READ_FIELDS:
            return getattr(self, name)
        row = self._row
        if name == "camera_keys":
            return [_IMAGES + camera for camera in self.camera_names]
        if name == "field_names":
            return self.keys()
        if name in row or say_who_makes(name):
            return row.get(name)  # None until its annotator has run
        if name in self["camera_keys"]:
            return self.frames(name.removeprefix(_IMAGES))
        return self._signals.get(name, MISSING)

    @property
    def _row(self) -> dict[str, Any]:
        """Its columns as they are now."""
        return self._rows(self._stores.tables.episodes.version()).get(self.episode_id, {})

    @cached_property
    def _signals(self) -> dict[str, NDArray[Any]]:
        import numpy as np

        trajectory, nothing = self.trajectory, np.zeros((self.num_steps, 0), np.float32)
        named = {"state": trajectory.state, "action": trajectory.action, **trajectory.extra}
        arrays = {name: signal.values if signal else nothing for name, signal in named.items()}
        rewards = {} if trajectory.reward is None else {"reward": trajectory.reward}
        return {"seconds": trajectory.timestamps, **rewards, **arrays}

    def _step(self, number: int) -> EpisodeStep:
        return EpisodeStep(self, {name: values[number] for name, values in self._signals.items()})

    @property
    def state(self) -> NDArray[np.float32]:
        """(T, S) float32, a row per step; column i is dimension `state_names[i]`, S is 0 without a state.

        A state of several arrays of the source has their dimensions one after another, as `state_names` has them.
        """
        return self._signals["state"]

    @property
    def action(self) -> NDArray[np.float32]:
        """(T, A) float32, a row per step; column i is dimension `action_names[i]`, A is 0 without actions."""
        return self._signals["action"]

    @property
    def tags(self) -> TagNames:
        """Its tags."""
        return TagNames(self._row.get("tags") or ())

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

    @property
    def frames(self) -> EpisodeFrames:
        """Pictures of its cameras, see `EpisodeFrames`.

        >>> episode.frames("front", [0.0, 1.5, 3.0]), episode.frames[-1]
        """
        return EpisodeFrames(self)

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
        if not isinstance(camera, str | Camera):
            hint = f"got {camera!r}; seconds are given by name: frames(seconds={camera!r})"
            raise WrongArguments("a camera is given by its name", hint)
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


class _StepList(list[Any]):
    """Steps, of which a name in brackets gives the values of all, stacked."""

    def __getitem__(self, key: Any) -> Any:
        import numpy as np

        return np.stack([step[key] for step in self]) if isinstance(key, str) else super().__getitem__(key)


@explain_mistakes
class EpisodeStep(dict[str, Any]):
    """The signals of one step by name; it answers to every key of its episode.

        >>> step = episode[0]
        >>> step["state"], step["timestamp"], step["observation.images.front"].shape, step["task"]

    Args:
        episode: The episode.
        values: The signals.
    """

    _called: ClassVar = "step"

    def __init__(self, episode: StoredEpisode, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._episode = episode

    # Of a mapping that computes values, whose keys are more than those that it lists.
    get = Mapping.get  # type: ignore[assignment]
    __contains__ = Mapping.__contains__

    def __missing__(self, key: str) -> Any:
        name, episode = column_of(key), self._episode
        if name != key:
            return self[name]
        if name in episode["camera_keys"]:
            return episode.frames(name.removeprefix(_IMAGES), self["seconds"])[0]
        if (value := episode._resolve_name(name)) is MISSING:
            form = read_foreign_names()["step"].get(key, "")
            known = ", ".join([*self, *episode["camera_keys"], "and the columns of its episode"])
            raise UnknownName(f"a step has no {key!r}", f"use {form}" if form else f"there are: {known}")
        return value


class TagNames(list[str]):
    """The tags of an episode, a list that refuses its changes: `Workspace.tag` and `Workspace.untag` make them."""

    _called: ClassVar = "ep.tags"
    __setitem__ = __delitem__ = __iadd__ = __imul__ = make_refusal("__setitem__")

    def __getattribute__(self, name: str) -> Any:
        if name in read_foreign_names()["ep.tags"]:
            raise UnknownName(f"the tags of an episode have no {name!r}", suggest_form(self, name))
        return super().__getattribute__(name)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return TagNames, ([*self],)


@dataclass(frozen=True)
class EpisodeFrames:
    """Pictures of the cameras of an episode, read when they are called for, or in brackets.

        >>> episode.frames("front", [0.0, 1.5, 3.0])
        >>> episode.frames[0], episode.frames[-5:], len(episode.frames), episode.frames["front"]

    A number in brackets is that of a step, for a picture of the best camera; a name gives all pictures of that camera.
    """

    episode: StoredEpisode

    def __call__(
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

        episode = self.episode
        selected = episode._camera(camera)
        if seconds is None:
            return np.stack(list(all_frames(selected.media)))
        listed = seconds if isinstance(seconds, int | float | np.ndarray) else list(seconds)
        checked = episode._check_seconds(np.atleast_1d(np.asarray(listed, np.float64)).tolist())
        shown = camera_seconds(episode, selected, checked, lambda: episode.trajectory.timestamps)
        return frames_at(selected.media, shown)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self(key)
        steps = self.episode[key]
        if isinstance(steps, list):
            return self(seconds=[step["seconds"] for step in steps])
        return self(seconds=steps["seconds"])[0]

    def __len__(self) -> int:
        return len(self.episode)


def _refuse_assignment(self: StoredEpisode, name: str, value: object) -> NoReturn:
    raise UnknownName(f"an episode is not changed by ep.{name} = ...", suggest_form(self, "__setattr__"))


StoredEpisode.__setattr__ = _refuse_assignment  # type: ignore[assignment]
# So that pandas takes a list of them for rows.
Mapping.register(StoredEpisode)


@explain_mistakes
@dataclass(frozen=True, kw_only=True)
class StoredHit(Hit):
    """The best moment of one episode, with access to the episode.

    >>> for hit in ws.search("open the drawer"):
    ...     hit.episode.frames(hit.camera, hit.seconds)
    """

    _called: ClassVar = "hit"
    _part: ClassVar = ("hit.episode", StoredEpisode)
    # Set for each hit, but no field: pandas makes a column of each.
    _stores: ClassVar[Stores]
    stores: InitVar[Stores]

    def __post_init__(self, stores: Stores) -> None:
        object.__setattr__(self, "_stores", stores)

    @classmethod
    def from_hit(cls, hit: Hit, stores: Stores) -> StoredHit:
        """The hit with access to these stores."""
        return cls(**{name: getattr(hit, name) for name in _HIT_FIELDS}, stores=stores)

    @cached_property
    def episode(self) -> StoredEpisode:
        """The episode, read when it is first used."""
        return StoredEpisode.from_episode(
            self._stores.tables.episodes.get_episode(self.episode_id), self._stores
        )

    def keys(self) -> Iterable[str]:
        """Names of the fields of `to_json`, so that `dict(hit)` has them."""
        return self.to_json().keys()

    def __getitem__(self, name: str) -> Json:
        if name not in self.keys():
            raise UnknownName(f"a hit has no field {name!r}", f"there are: {', '.join(self.keys())}")
        return self.to_json()[name]

    def to_json(self) -> dict[str, Json]:
        """One element of `ares search --json`."""
        return self._plain().to_json()

    def _plain(self) -> Hit:
        return Hit(**{name: getattr(self, name) for name in _HIT_FIELDS})

    def __reduce__(self) -> tuple[Callable[..., StoredHit], tuple[Hit, Stores]]:
        return StoredHit.from_hit, (self._plain(), self._stores)
