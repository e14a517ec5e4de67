"""Keeps an exception or a wrong result of an annotator from costing more than one subject."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from ares.annotation import Annotation, Column, ColumnType, Cost, Producer
from ares.console import count_of
from ares.errors import AresError, PluginError, StoreError
from ares.jobs import WorkerNeeds
from ares.registry import plugin_faults
from ares.store import annotation_to_row, episode_schema, type_mismatch
from ares_annotators.base import (
    CameraSeconds,
    Factory,
    FrameVectors,
    Options,
    Outcome,
    PaidFailure,
    Preflight,
    Result,
    Subject,
    Work,
)

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


# Cameras and signals of an episode may end some frames apart.
_SPAN_TOLERANCE_SECONDS = 1.0
_MAX_BATCH_SIZE = 100_000
_MAX_WORKERS = 1_000
_UNIT_LENGTH_TOLERANCE = 0.01
# As difflib counts; "batchsize" and "select_frame" are meant, "stores" and "workspace" are not.
_SPELLING_LIKENESS = 0.85
_SPACE_NAME = re.compile(r"[A-Za-z0-9_-]+")


def select_no_frames(subject: Subject) -> CameraSeconds:
    """Select no frame."""
    return {}


def _no_cost(subject: Subject) -> Cost:
    return Cost()


def _no_preflight(producers: Sequence[Producer]) -> Preflight:
    return Preflight()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedAnnotator:
    """An annotator of a run: all that `Annotator` lists, and what the plug-in left out by its default.

    `process`, which a run calls, is the outermost of three functions, each of which calls the next:
    1. `WorkerPool.map`, unless 2 only waits for a server (`connect_annotator` of remote.py): each worker has its own 2;
    2. a `GuardedProcess` (`make_guarded_annotator`): errors in place of exceptions, and results that are checked;
    3. `process` of the plug-in (`check_annotator`), which nothing but its `GuardedProcess` calls.
    """

    producer: Producer
    process: Callable[[Sequence[Work]], Sequence[Outcome]]
    select_frames: Callable[[Subject], CameraSeconds] = select_no_frames
    needs_signals: bool = False
    batch_size: int = 1
    workers: int = 1
    call_limit: Callable[[], int] | None = None
    space: str = ""
    estimate: Callable[[Subject], Cost] = _no_cost
    finish: Callable[[], Cost] = Cost
    warnings: Sequence[str] = ()
    preflight: Callable[[Sequence[Producer]], Preflight] = _no_preflight
    charges_budget: bool = False
    reads_stored: Sequence[str] = ()
    side_names: Sequence[str] = ()
    side_producers: Sequence[Producer] = ()
    needs: WorkerNeeds = field(default_factory=WorkerNeeds)


class AnnotatorResultRules:
    """The rules for the results of one annotator.

    Args:
        label: How messages name the annotator, see `ares.registry.Registry.label`.
        annotator: The annotator.
    """

    def __init__(self, label: str, annotator: GuardedAnnotator) -> None:
        self._label = label
        self._maker_id = annotator.producer.maker_id
        self._side_producers = {producer.maker_id for producer in annotator.side_producers}
        self._columns: tuple[Column, ...] = tuple(annotator.producer.columns)
        self._space = annotator.space
        # Vectors of a space have one length; the first that pass every other rule determine it.
        self._dims: dict[str, int] = {}

    def check(self, result: Any, work: Work) -> Outcome:
        """The result itself, or the error that takes its place; what was paid for it is not lost."""
        if isinstance(result, AresError):
            return result
        if isinstance(result, PaidFailure):
            return self._check_failure(result)
        try:
            self._check(result, work)
        except PluginError as error:
            return PaidFailure(error, result.cost) if _has_valid_cost(result) else error
        checked: Result = result
        return checked

    def _check_failure(self, failure: PaidFailure) -> Outcome:
        if isinstance(failure.error, AresError) and is_summable_cost(failure.cost):
            return failure
        return self.wrong("a PaidFailure without an AresError and a Cost", f"got {_describe_value(failure)}")

    def wrong(self, what: str, detail: str) -> PluginError:
        """The error for something that the annotator returned."""
        return PluginError(f"{self._label} returned {what}", detail)

    def _check(self, result: Any, work: Work) -> None:
        if not isinstance(result, Result):
            raise self.wrong(
                "no Result",
                f"got {_describe_value(result)}; give a Result, a PaidFailure or an AresError per Work",
            )
        if result.paid is not None and not is_summable_cost(result.paid):
            raise self.wrong("a wrong cost", f"got {_shorten_value(result.paid)}")
        for annotation in self._items(result.annotations, "annotations"):
            self._check_annotation(annotation, work)
        for rows in self._items(result.vectors, "vectors"):
            self._check_vectors(rows, work)

    def _items(self, values: Any, field: str) -> Iterable[Any]:
        if not isinstance(values, list | tuple):
            raise self.wrong(f"a Result without a list of {field}", f"got {_describe_value(values)}")
        return values

    def _check_annotation(self, annotation: Any, work: Work) -> None:
        if not isinstance(annotation, Annotation):
            raise self.wrong("something else than annotations", f"got {_describe_value(annotation)}")
        if annotation.episode_id != work.episode.episode_id:
            raise self.wrong(
                "an annotation of another episode",
                f"got {_shorten_value(annotation.episode_id)}; use new_annotation",
            )
        if annotation.maker_id != self._maker_id and annotation.maker_id not in self._side_producers:
            raise self.wrong(
                "an annotation of another producer",
                f"got {_shorten_value(annotation.maker_id)}; the annotator declares {self._maker_id}",
            )
        self._check_span(annotation, work)
        self._check_value(annotation)
        try:
            annotation_to_row(annotation)
        except StoreError:
            return  # the writer counts it, with what the stores cannot hold
        except Exception as error:
            raise self.wrong("an annotation with a field of a wrong type", str(error)) from None

    def _check_span(self, annotation: Annotation, work: Work) -> None:
        start, stop = annotation.start_seconds, annotation.stop_seconds
        latest = work.episode.duration_seconds + _SPAN_TOLERANCE_SECONDS
        if not (_is_finite(start) and _is_finite(stop) and 0 <= start <= stop <= latest):
            raise self.wrong(
                "an annotation with a wrong span",
                f"[{_shorten_value(start)}, {_shorten_value(stop)}); "
                f"the episode lasts {work.episode.duration_seconds:.2f} s",
            )
        if not is_summable_cost(annotation.cost):
            raise self.wrong("an annotation with a wrong cost", f"got {_shorten_value(annotation.cost)}")

    def _check_value(self, annotation: Annotation) -> None:
        value = annotation.value
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise self.wrong("a value that is no JSON object", f"got {_describe_value(value)}")
        is_main = annotation.maker_id == self._maker_id and annotation.ordinal == 0
        for column in self._columns if is_main else ():
            mismatch = type_mismatch(value.get(column.name), column.type, column.name, column.choices)
            if mismatch:
                raise self.wrong(
                    "a value that does not fit its column", _shorten_value(mismatch, quote=False)
                )

    def _check_vectors(self, rows: Any, work: Work) -> None:
        if not isinstance(rows, FrameVectors):
            raise self.wrong("something else than frame vectors", f"got {_describe_value(rows)}")
        if rows.episode_id != work.episode.episode_id:
            raise self.wrong("vectors of another episode", f"got {_shorten_value(rows.episode_id)}")
        space = rows.space or self._space
        if not isinstance(space, str) or not _SPACE_NAME.fullmatch(space):
            raise self.wrong("vectors without a space", f"got {space!r}; use letters, digits, _ and -")
        problem = _vector_problem(rows, self._dims.get(space, 0))
        if problem:
            raise self.wrong("wrong vectors", problem)
        if len(rows.vectors):
            self._dims.setdefault(space, int(rows.vectors.shape[1]))


def check_frames(label: str, request: Any, subject: Subject) -> CameraSeconds:
    """The frames that an annotator requests of a subject.

    Raises:
        PluginError: It is no mapping of cameras to seconds, or a camera or a second is none of the episode.
    """
    if not isinstance(request, Mapping):
        raise PluginError(f"{label} selected no frames by camera", f"got {_describe_value(request)}")
    cameras = {camera.name: camera for camera in subject.episode.cameras}
    for name, seconds in request.items():
        if name not in cameras:
            raise PluginError(
                f"{label} selected frames of an unknown camera",
                f"got {_shorten_value(name)}; the episode has {', '.join(cameras) or 'none'}",
            )
        media = cameras[name].media
        longest = max(subject.episode.duration_seconds, media.num_frames / media.rate_hz)
        wrong = [second for second in seconds if not (_is_finite(second) and 0 <= second <= longest)]
        if wrong:
            raise PluginError(
                f"{label} selected frames outside the episode",
                f"second {_shorten_value(wrong[0])} of {name}, which lasts {longest:.2f} s",
            )
    return request


def check_annotator(label: str, annotator: Any) -> GuardedAnnotator:
    """All that a run needs of what a factory returned. Raises PluginError when it cannot be run."""
    read = _read_members(label, annotator)
    if not all(isinstance(column, Column) for column in read.producer.columns):
        raise PluginError(f"{label} has a column that is no Column", _shorten_value(read.producer.columns))
    for column in read.producer.columns:
        types = get_args(ColumnType)
        if column.type not in types:  # nothing could read the workspace once such a producer is stored
            detail = f"got {_shorten_value(column.type)}; a type is {', '.join(types)}"
            raise PluginError(f"{label} has a column {column.name!r} of an unknown type", detail)
        if column.name in episode_schema().names and read.producer.subject_kind == "episode":
            raise PluginError(
                f"{label} has a column {column.name!r}", "every episode has that; give another name"
            )
    for name, limit in (("batch_size", _MAX_BATCH_SIZE), ("workers", _MAX_WORKERS)):
        value = getattr(read, name)
        if not isinstance(value, int) or not 1 <= value <= limit:
            raise PluginError(
                f"{label} has a wrong {name}", f"got {_shorten_value(value)}; give 1 to {limit}"
            )
    read.producer.maker_id  # noqa: B018  settings that are not JSON raise here, before anything is stored
    return read


def _read_members(label: str, annotator: Any) -> GuardedAnnotator:
    """What a plug-in has of the members of an annotator. Raises PluginError when it lacks one, or misspelt one."""
    if not callable(getattr(annotator, "process", None)):
        raise PluginError(
            f"{label} has no method 'process'", f"its factory returned a {type(annotator).__name__}"
        )
    producer = getattr(annotator, "producer", None)
    if not isinstance(producer, Producer):
        raise PluginError(
            f"{label} has no producer", f"got {_describe_value(producer)}; give `producer = Producer(...)`"
        )
    names = {member.name for member in fields(GuardedAnnotator)}
    present = {name: getattr(annotator, name) for name in names if hasattr(annotator, name)}
    _refuse_misspelt(label, dir(annotator), names - present.keys())
    return GuardedAnnotator(**present)


def _refuse_misspelt(label: str, names: Iterable[str], absent: Collection[str]) -> None:
    """A misspelt name would leave the default in place, and nobody would notice."""
    from difflib import get_close_matches

    for name in names:
        nearest = [] if name.startswith("_") else get_close_matches(name, absent, 1, _SPELLING_LIKENESS)
        if nearest:
            raise PluginError(f"{label} has {name!r}, which no run reads", f"did you mean {nearest[0]!r}?")


def check_estimated_cost(label: str, cost: Any, *arguments: object) -> Cost:
    """What an annotator estimated of some arguments. Raises PluginError when it is no cost."""
    if not is_summable_cost(cost):
        raise PluginError(f"{label} estimated no cost", f"got {_describe_value(cost)}; give a Cost")
    checked: Cost = cost
    return checked


def _check_preflight(label: str, report: Any, producers: Sequence[Producer]) -> Preflight:
    check_estimated_cost(label, report.cost)
    checked: Preflight = replace(report, warnings=tuple(map(str, report.warnings)))
    return checked


def is_summable_cost(cost: Any) -> bool:
    """Whether a cost can be added up: numbers from 0 on, or no price."""
    return isinstance(cost, Cost) and all(
        _is_finite(number) and number >= 0
        for number in (cost.calls, cost.tokens_in, cost.tokens_out, cost.usd or 0.0)
    )


def _has_valid_cost(result: Any) -> bool:
    try:
        return is_summable_cost(result.cost)
    except Exception:  # a result of a plug-in may be anything
        return False


def _vector_problem(rows: FrameVectors, dim: int) -> str:
    """What is wrong with vectors (N, D) at N seconds, or ""."""
    import numpy as np

    vectors, seconds = np.asarray(rows.vectors), np.asarray(rows.seconds)
    if not vectors.size and not seconds.size:
        return ""
    if vectors.ndim != 2 or vectors.shape[1] == 0 or not np.issubdtype(vectors.dtype, np.floating):
        return f"shape {vectors.shape} of {vectors.dtype}; give (N, D) float32"
    if seconds.shape != (len(vectors),):
        return (
            f"{count_of(len(vectors), 'vector')} at {seconds.shape} seconds; give one second for each vector"
        )
    if dim and vectors.shape[1] != dim:
        return f"{count_of(vectors.shape[1], 'number')}; the other vectors of the space have {dim}"
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    if not (np.isfinite(seconds.astype(np.float64)).all() and np.isfinite(lengths).all()):
        return "NaN or infinity"
    wrong = lengths[np.abs(lengths - 1) > _UNIT_LENGTH_TOLERANCE]
    return f"a vector of length {wrong[0]:.3f}; give unit vectors" if len(wrong) else ""


def _is_finite(value: Json | Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _describe_value(value: object) -> str:
    return f"{type(value).__name__} {_shorten_value(value)}"


def _shorten_value(value: object, quote: bool = True) -> str:
    try:
        text = repr(value) if quote else str(value)
    except Exception:  # an object of a plug-in may be unable to describe itself
        return "an object that cannot be printed"
    return text if len(text) <= 100 else f"{text[:97]}..."


def make_guarded_annotator(
    label: str, factory: Factory, options: Options, stores: Stores
) -> GuardedAnnotator:
    """Make an annotator whose calls return errors in place of exceptions.

    Args:
        label: How messages name it, see `ares.registry.Registry.label`.
        factory: Its factory.
        options: Options of the run, with its values.
        stores: Stores of the workspace.

    Raises:
        PluginError: The factory raised an exception, or returned something that cannot be run.
        AresError: What the factory raised to be read: a wrong option, a model that cannot be loaded.
    """
    with plugin_faults(label):
        annotator = check_annotator(label, factory(options, stores))
    select = annotator.select_frames
    return replace(
        annotator,
        process=GuardedProcess(label, annotator),
        select_frames=select_no_frames
        if select is select_no_frames
        else _guard_call(label, select, check_frames),
        estimate=_guard_call(label, annotator.estimate, check_estimated_cost),
        finish=_guard_call(label, annotator.finish, check_estimated_cost),
        preflight=_guard_call(label, annotator.preflight, _check_preflight),
    )


class GuardedProcess:
    """The `process` of an annotator; a batch that fails is repeated subject by subject, to cost no more than needed.

    Args:
        label: How messages name the annotator.
        annotator: The annotator.
    """

    def __init__(self, label: str, annotator: GuardedAnnotator) -> None:
        self._label = label
        self._process = annotator.process
        self._check = AnnotatorResultRules(label, annotator)

    def __call__(self, works: Sequence[Work]) -> list[Outcome]:
        """One result or error per work, in order. Raises StoreError: it is the same for every subject."""
        try:
            with plugin_faults(self._label):
                results = list(self._process(tuple(works)))
            if len(results) != len(works):
                raise self._check.wrong(
                    "a wrong number of results", f"{len(results)} for {count_of(len(works), 'work')}"
                )
        except StoreError:
            raise
        except AresError as error:
            if len(works) == 1:
                return [error]
            return [result for work in works for result in self([work])]
        return [self._check.check(result, work) for result, work in zip(results, works, strict=True)]


_Checked = TypeVar("_Checked")


def _guard_call(
    label: str, call: Callable[..., Any], check: Callable[..., _Checked]
) -> Callable[..., _Checked]:
    """A call of a plug-in whose answer is checked, with its arguments; whatever it raises is an AresError."""

    def guarded(*arguments: Any) -> _Checked:
        with plugin_faults(label):
            return check(label, call(*arguments), *arguments)

    return guarded
