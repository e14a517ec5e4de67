"""The interface of annotators: the work and frames that they get, and the results that they return."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ares.annotation import Annotation, Column, Cost, Producer, SubjectKind
from ares.clock import needs_timestamps
from ares.episode import Camera, Episode, Trajectory
from ares.errors import AresError, MediaError, NotTried, RequestError
from ares.jobs import ComputePlan, FunctionAnnotator, ReasonCount, read_function_value
from ares.process_tuning import fast_slots_pickling
from ares.settings import Settings
from ares_annotators.options import ParsedOptions, parse_options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import Stores


# Seconds from the start of an episode, by camera name.
CameraSeconds = Mapping[str, Sequence[float]]


def merge_frame_requests(requests: Iterable[CameraSeconds]) -> dict[str, list[float]]:
    """The sorted seconds of several requests, by camera."""
    union: dict[str, set[float]] = {}
    for request in requests:
        for camera, seconds in request.items():
            union.setdefault(camera, set()).update(seconds)
    return {camera: sorted(seconds) for camera, seconds in union.items() if seconds}


class Frames:
    """Decoded frames by camera and second.

    Args:
        episode: The episode whose frames these are.
        requests: The seconds that each annotator of the run needs; their union is decoded.
        stamps: (T,) stamps of the steps; needed where `ares.clock.needs_timestamps` says so.

    Attributes:
        is_changed: Whether they are other frames than those of the episode, to see what a judge makes of them.
    """

    is_changed = False

    def __init__(
        self,
        episode: Episode,
        requests: Sequence[CameraSeconds],
        stamps: NDArray[np.float64] | None = None,
    ) -> None:
        self._episode, self._stamps = episode, stamps
        self._seconds = merge_frame_requests(requests)
        self._decoded: dict[str, dict[float, NDArray[np.uint8]] | MediaError] = {}

    @property
    def requested(self) -> CameraSeconds:
        """The seconds that can be read, by camera."""
        return self._seconds

    def missing(self, request: CameraSeconds) -> CameraSeconds:
        """The part of a request that cannot be read here."""
        missing = {
            camera: sorted(set(seconds) - set(self.requested.get(camera, ())))
            for camera, seconds in request.items()
        }
        return {camera: seconds for camera, seconds in missing.items() if seconds}

    def elsewhere(self, request: CameraSeconds) -> Frames:
        """Frames of the episode at other seconds, for an annotator that knows which it needs once it has seen some."""
        return Frames(self._episode, [request], self._stamps)

    def decode(self) -> None:
        """Decode the requested frames; the error of a camera that cannot be decoded is raised later, by `at`."""
        from ares.media import frames_at

        for name, seconds in self._seconds.items():
            camera = self._episode.camera(name)
            try:
                images = frames_at(camera.media, self._shown_seconds(camera, seconds))
            except MediaError as error:
                self._decoded[name] = error
            else:
                self._decoded[name] = dict(zip(seconds, images, strict=True))

    def release(self) -> None:
        """Forget the pixels; frames that are read again are decoded again."""
        self._decoded = {}

    def _shown_seconds(self, camera: Camera, seconds: Sequence[float]) -> Sequence[float]:
        from ares.clock import camera_seconds

        stamps = self._stamps
        return seconds if stamps is None else camera_seconds(self._episode, camera, seconds, lambda: stamps)

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """(N, H, W, 3) RGB frames shown at these seconds, each of which must have been requested.

        Raises:
            MediaError: The camera could not be decoded.
        """
        import numpy as np

        if not self._decoded:
            self.decode()
        decoded = self._decoded[camera]
        if isinstance(decoded, MediaError):
            raise decoded
        return np.stack([decoded[second] for second in seconds])


class LayeredFrames(Frames):
    """Frames of which some were requested later than others: those of a segment that the same run has made.

    Args:
        first: The frames that were requested first.
        later: The others.
    """

    def __init__(self, first: Frames, later: Frames) -> None:
        self._first, self._later = first, later

    @property
    def requested(self) -> CameraSeconds:
        """The seconds that can be read, by camera."""
        first, later = self._first.requested, self._later.requested
        return {camera: [*first.get(camera, ()), *later.get(camera, ())] for camera in {*first, *later}}

    def elsewhere(self, request: CameraSeconds) -> Frames:
        """As `Frames.elsewhere`."""
        return self._first.elsewhere(request)

    def decode(self) -> None:
        """Decode what was requested later; the rest has been decoded."""
        self._later.decode()

    def release(self) -> None:
        """As `Frames.release`."""
        self._first.release()
        self._later.release()

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """As `Frames.at`."""
        import numpy as np

        is_later = set(self._later.requested.get(camera, ()))
        images = [
            (self._later if second in is_later else self._first).at(camera, [second])[0] for second in seconds
        ]
        return np.stack(images)


class Budget:
    """Money of a run, shared by its annotators; safe to use from threads.

    A call sets aside the most that it can cost and is charged what it did cost. A call that finds too little waits
    while other calls are in flight, as they mostly cost less: the run ends when what is left pays for no call more.

    Args:
        usd: Hard limit, or None for none.
    """

    def __init__(self, usd: float | None) -> None:
        if usd is not None and not math.isfinite(usd):
            raise RequestError("a budget is not a number", f"{usd!r}; give US dollars such as 2.50")
        self._left_usd = usd
        self._calls_in_flight = 0
        self._is_spent = False
        self._is_stopped = False
        self._settled = threading.Condition()

    def __reduce__(self) -> tuple[type[Budget], tuple[float | None]]:
        """A worker on another machine gets what is left."""
        return Budget, (self._left_usd,)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._left_usd is not None

    @property
    def is_spent(self) -> bool:
        """Whether a call has found too little."""
        return self._is_spent

    @property
    def is_stopped(self) -> bool:
        """Whether no call is to be made any more."""
        return self._is_stopped

    def renewed(self) -> Budget:
        """A budget of what is left, for the next part of a run whose first has ended."""
        return Budget(self._left_usd)

    def stop(self) -> None:
        """The run is ending: calls that have not been sent are not made."""
        with self._settled:
            self._is_stopped = True
            self._settled.notify_all()

    def reserve(self, usd: float) -> bool:
        """Set the most that a call can cost aside; False, with nothing set aside, when that is more than is left."""
        with self._settled:
            while self._left_usd is not None and usd > self._left_usd and self._calls_in_flight:
                if self._is_stopped:
                    return False
                self._settled.wait()
            if self._left_usd is not None and usd > self._left_usd:
                self._is_spent = True
                return False
            self._calls_in_flight += 1
            if self._left_usd is not None:
                self._left_usd -= usd
            return True

    def settle(self, reserved_usd: float, actual_usd: float | None) -> None:
        """Charge a call what it cost in place of what was set aside; where that is not known, what was set aside."""
        with self._settled:
            self._calls_in_flight -= 1
            if self._left_usd is not None:
                self._left_usd += reserved_usd - (reserved_usd if actual_usd is None else actual_usd)
            self._settled.notify_all()


# After so many failures in a row a model is given up: its server is down, not the episode bad.
MAX_REPEATED_FAILURES = 20


def make_budget_spent_error() -> NotTried:
    """The error of a call that the budget does not pay for."""
    return NotTried("the budget is spent", "give a larger --budget to go on")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of an annotation run; what only some annotators have, they declare with `takes_options`.

    Attributes:
        settings: The environment's models, keys and prices.
        model: Model spec for this run, or "" for the setting's.
        device: torch device, or "" for a GPU when there is one.
        values: Values of annotators' options: "layout" for all annotators that have it, "caption.layout" for
            one of them. A factory gets those of its annotator, by field.
        load_models: False for an estimate: no model is loaded, no server asked, and nothing stored.
        budget: Pays for the calls of models behind servers; None for no limit.
        planned_episodes: Most episodes of the run, for an annotator that samples them; None outside a run.
        compute: Where the run works, and what a person wants of its workers.
    """

    settings: Settings
    model: str = ""
    device: str = ""
    values: Mapping[str, Json] = field(default_factory=dict)
    load_models: bool = True
    budget: Budget | None = None
    planned_episodes: int | None = None
    compute: ComputePlan = field(default_factory=ComputePlan)

    def parse(self, model: type[ParsedOptions]) -> ParsedOptions:
        """The options of the annotator that a factory makes. Raises RequestError for a wrong value."""
        return parse_options(model, self.values)

    def with_budget(self, usd: float | None) -> Options:
        """The same with a budget in US dollars. Raises RequestError where no price is known."""
        if usd is not None and self.settings.price is None:
            raise RequestError(
                "a budget needs a price", "set ARES_PRICE=IN,OUT in US dollars per million tokens"
            )
        return replace(self, budget=Budget(usd))


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What one Work is about: an episode, a segment of it, or an annotation.

    Attributes:
        kind: What it is.
        id: episode_id, id of the segment, or annotation_id; see `ares.annotation.Annotation.subject`.
        episode: The episode.
        start_seconds: Start of its span [start_seconds, stop_seconds).
        stop_seconds: End of the span.
        annotation: The annotation, or the one that made the segment; None when the episode is the subject.
        siblings: Of an annotation about a segment: what its producer says of all segments of the
            episode, itself included.
    """

    kind: SubjectKind
    id: str
    episode: Episode
    start_seconds: float
    stop_seconds: float
    annotation: Annotation | None = None
    siblings: tuple[Annotation, ...] = ()

    @property
    def is_whole_episode(self) -> bool:
        """Whether the span covers the episode."""
        return self.start_seconds <= 0.0 and self.stop_seconds >= self.episode.duration_seconds


def make_episode_subject(episode: Episode) -> Subject:
    """An episode as a subject."""
    return Subject(
        kind="episode",
        id=episode.episode_id,
        episode=episode,
        start_seconds=0.0,
        stop_seconds=episode.duration_seconds,
    )


def make_annotation_subject(
    episode: Episode, annotation: Annotation, siblings: tuple[Annotation, ...] = ()
) -> Subject:
    """An annotation of an episode as a subject, with the span of seconds that it describes; see `Subject`."""
    return Subject(
        kind="annotation",
        id=annotation.annotation_id,
        episode=episode,
        start_seconds=annotation.start_seconds,
        stop_seconds=annotation.stop_seconds,
        annotation=annotation,
        siblings=siblings,
    )


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One subject to annotate, with the data that was read for it.

    Attributes:
        subject: The subject.
        frames: Decoded frames of the seconds that the annotator selected.
        trajectory: Signals of the whole episode, when the annotator needs them.
        is_last_reader: Whether no other annotator of the run reads the frames after this one.
    """

    subject: Subject
    frames: Frames
    trajectory: Trajectory | None
    is_last_reader: bool = False

    @property
    def episode(self) -> Episode:
        """The episode that the subject belongs to."""
        return self.subject.episode

    def release_frames(self) -> None:
        """Release the pixels of the frames, if no other annotator reads them; read again, they are decoded again."""
        if self.is_last_reader:
            self.frames.release()


def read_work(stores: Stores, subject: Subject, requests: Sequence[CameraSeconds]) -> Work:
    """A subject with the signals of its episode, outside a run; its frames are decoded when they are read.

    Args:
        stores: Stores of the workspace.
        subject: The subject.
        requests: The seconds that each annotator needs.
    """
    episode = subject.episode
    trajectory = dict(stores.tables.trajectories.read([episode.episode_id])).get(episode.episode_id)
    stamps = trajectory.timestamps if trajectory and needs_timestamps(episode) else None
    return Work(subject=subject, frames=Frames(episode, requests, stamps), trajectory=trajectory)


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameVectors:
    """Embedded frames of one camera of one episode.

    Attributes:
        episode_id: The episode.
        camera: Camera name; "" for vectors that are not of images.
        seconds: (N,) float64 seconds from the start of the episode.
        vectors: (N, D) float32 of unit length.
        space: Name of the space that they belong to, or "" for the annotator's.
    """

    episode_id: str
    camera: str
    seconds: NDArray[np.float64]
    vectors: NDArray[np.float32]
    space: str = ""


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an annotator made of one Work.

    Attributes:
        annotations: The annotations.
        vectors: Frame vectors, for an embedder.
        paid: What was paid for it now, where it used replies that were paid before; None for the cost of the
            annotations.
        warnings: What a person should know of it, with the same text for every case; the report counts them.
        lost: What of the data that it was given is in none of these, a text for each item.
    """

    annotations: Sequence[Annotation]
    vectors: Sequence[FrameVectors] = ()
    paid: Cost | None = None
    warnings: Sequence[str] = ()
    lost: Sequence[str] = ()

    @property
    def cost(self) -> Cost:
        """What was paid for it."""
        return (
            sum((annotation.cost for annotation in self.annotations), Cost())
            if self.paid is None
            else self.paid
        )


@dataclass(frozen=True, slots=True)
class PaidFailure:
    """A Work that failed although calls were paid for it; one that cost nothing is a mere AresError.

    Attributes:
        error: Why it failed.
        cost: What was paid for it.
    """

    error: AresError
    cost: Cost


Outcome = Result | PaidFailure | AresError


def find_outcome_cost(outcome: Outcome) -> Cost:
    """What was paid for a Work."""
    return Cost() if isinstance(outcome, AresError) else outcome.cost


def find_outcome_error(outcome: Outcome) -> AresError | None:
    """Why a Work failed; None where it did not."""
    error = outcome.error if isinstance(outcome, PaidFailure) else outcome
    return error if isinstance(error, AresError) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What was learnt before the first call of a run.

    Attributes:
        cost: What a test call cost.
        warnings: What a person should know; written at the start of the run and part of its report.
        lost: What of the data that the annotator was given belongs to no work, by reason.
    """

    cost: Cost = field(default_factory=Cost)
    warnings: Sequence[str] = ()
    lost: Sequence[ReasonCount] = ()


class Annotator(Protocol):
    """An annotator, ready to run; the entry points of "ares.annotators" hold factories of them, see `Factory`.

    Any object with `producer` and `process` is one. What else it may have is listed here with its default, so that a
    plug-in is a short class that inherits nothing and holds what it differs in; the class can be the factory. The
    runner reads all of it once and refuses a name that is nearly one of these.

    Attributes and methods that can be left out:
        select_frames(subject) -> CameraSeconds: Seconds per camera that it needs decoded, of one subject and its span;
            all annotators of a run share one decoding. Default: none.
        needs_signals: bool: Whether it needs the trajectory. Default: False.
        batch_size: int: Most Works in one call. Default: 1.
        workers: int: Most calls at the same time (several only for remote models). Default: 1.
        call_limit() -> int: Calls at the same time now, where that changes during a run; at most `workers`.
        space: str: Name of the embedding space that its vectors belong to. Default: "", each vector names one.
        estimate(subject) -> Cost: Expected cost of one Work. Default: nothing but time.
        finish() -> Cost: Called once after the last call of a run that was not stopped; what it has cost. Default:
            nothing.
        reads_stored: Sequence[str]: Annotators, of the same run too, whose stored annotations it reads: it begins when
            they have ended. Read of the factory. Default: none.
        warnings: Sequence[str]: What a person should know before the run; written at its start and part of its report.
        preflight(producers) -> Preflight: Called once before the first call of a run, with the producers of all its
            annotators: raises an AresError where the run cannot go well. Default: checks nothing.
        charges_budget: bool: Whether its model charges `Options.budget` itself, call by call. Default: False.
        side_names: Sequence[str]: Names of further annotations that some of its results hold; what they cost is quoted
            with it.
        side_producers: Sequence[Producer]: Producers of some of these, where that is not `producer`: facts that outlive
            a change of its settings.
        needs: WorkerNeeds: What one worker takes of a machine, where `process` runs in several.
    """

    @property
    def producer(self) -> Producer:
        """Name, version, model and settings, stored with its annotations.

        It says what the annotator describes: one Work per episode, per segment, or per annotation of the annotators
        that `producer.after` names.
        """

    def process(self, works: Sequence[Work]) -> Sequence[Outcome]:
        """Work on a batch; one Result, PaidFailure or AresError per Work, in order.

        After an exception the batch is repeated Work by Work, and only the one that raises has failed.
        """


# A function, or the class of the annotator itself.
Factory = Callable[[Options, "Stores"], Annotator]


def new_annotation(
    work: Work,
    producer: Producer,
    value: Mapping[str, Json],
    *,
    span: tuple[float, float] | None = None,
    camera: str = "",
    frames: Sequence[float] = (),
    cost: Cost | None = None,
) -> Annotation:
    """An annotation of a work's subject; `dataclasses.replace` sets its part, ordinal or revision.

    Args:
        work: The work.
        producer: Its producer.
        value: What it says; keys that are columns of the producer become filter columns.
        span: Start and stop in seconds, for an annotator that finds segments; by default those of the subject.
        camera: Camera that it was made from, or "".
        frames: Seconds of the frames that the producer was given.
        cost: What it cost.
    """
    start, stop = span or (work.subject.start_seconds, work.subject.stop_seconds)
    return Annotation(
        episode_id=work.episode.episode_id,
        name=producer.annotator,
        value=value,
        maker_id=producer.maker_id,
        subject=work.subject.id,
        start_seconds=start,
        stop_seconds=stop,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        camera=camera,
        frames=tuple(frames),
        cost=cost or Cost(),
        subject_kind=work.subject.kind,
    )


class CellAnnotator:
    """A plain function of a notebook as an annotator; what it returns fills columns, and None fills none.

    Args:
        name: Its name.
        plan: The function, with its columns.
        options: As every factory gets them.
        stores: Stores of the workspace.
    """

    def __init__(self, name: str, plan: FunctionAnnotator, options: Options, stores: Stores) -> None:
        earlier_columns = {
            column.name
            for producer in stores.annotations.producers().values()
            if producer.annotator == name
            for column in producer.columns
        }
        if clashes := plan.columns.keys() & (
            set(stores.tables.episodes.snapshot().arrow_schema.names) - earlier_columns
        ):
            raise RequestError(
                f"there is a column {min(clashes)!r} already", f"{name} fills it; give it another name"
            )
        meaning = f"What the function {name} returned."
        columns = [
            Column(name=key, type=type_name, meaning=meaning) for key, type_name in plan.columns.items()
        ]
        self.producer = Producer(
            annotator=name, version="1", settings={"source": plan.source}, columns=tuple(columns)
        )
        self.batch_size = max(1, plan.batch_size)
        # Signals are read for many episodes at once where the function names them.
        code = getattr(plan.function, "__code__", None)
        self.needs_signals = code is not None and "trajectory" in code.co_names
        self._plan, self._stores = plan, stores

    def process(self, works: Sequence[Work]) -> Sequence[Outcome]:
        """One annotation per episode. Raises RequestError for a result that its columns cannot have."""
        from ares.workspace import StoredEpisode

        episodes = [StoredEpisode.from_episode(work.episode, self._stores) for work in works]
        for episode, work in zip(episodes, works, strict=True):
            if work.trajectory is not None:
                vars(episode)["trajectory"] = work.trajectory
        values = (
            self._plan.function(episodes)
            if self._plan.batch_size
            else [self._plan.function(episode) for episode in episodes]
        )
        if len(values) != len(works):
            raise RequestError(
                "a function returns a value for each episode", f"{len(values)} for {len(works)}"
            )
        read = partial(read_function_value, name=self.producer.annotator, columns=self._plan.columns)
        return [
            Result(annotations=[new_annotation(work, self.producer, value)])
            for work, value in zip(works, map(read, values), strict=True)
        ]
