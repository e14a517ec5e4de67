"""Runs an annotator so that an exception or a wrong result of it costs one subject, and never the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from annotators.base import Annotator, Factory, Options, Outcome, Preflight, Subject, Work, no_frames
from annotators.frames import CameraSeconds
from annotators.runner.result_checks import ResultCheck, check_annotator, check_cost, check_frames
from ares.annotation import Cost, Maker
from ares.errors import AresError, StoreError
from ares.registry import plugin_faults

if TYPE_CHECKING:
    from ares.store import Stores


def make_guarded(label: str, factory: Factory, options: Options, stores: Stores) -> Annotator:
    """Make an annotator whose calls return errors in place of exceptions.

    Args:
        label: How messages name it, see `ares.registry.Registry.label`.
        factory: Its factory.
        options: Options of the run, with its own values.
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
        select_frames=no_frames if select is no_frames else _guarded_frames(label, select),
        estimate=_guarded_estimate(label, annotator.estimate),
        preflight=_guarded_preflight(label, annotator.preflight),
    )


class GuardedProcess:
    """The `process` of an annotator; a batch that fails is repeated subject by subject, to cost no more than needed.

    Args:
        label: How messages name the annotator.
        annotator: The annotator.
    """

    def __init__(self, label: str, annotator: Annotator) -> None:
        self._label = label
        self._process = annotator.process
        self._check = ResultCheck(label, annotator)

    def __call__(self, works: Sequence[Work]) -> list[Outcome]:
        """One result or error per work, in order. Raises StoreError: it is the same for every subject."""
        try:
            with plugin_faults(self._label):
                results = list(self._process(tuple(works)))
            if len(results) != len(works):
                raise self._check.wrong("a wrong number of results", f"{len(results)} for {len(works)} works")
        except StoreError:
            raise
        except AresError as error:
            if len(works) == 1:
                return [error]
            return [result for work in works for result in self([work])]
        return [self._check.check(result, work) for result, work in zip(results, works, strict=True)]


def _guarded_frames(
    label: str, select: Callable[[Subject], CameraSeconds]
) -> Callable[[Subject], CameraSeconds]:
    def select_frames(subject: Subject) -> CameraSeconds:
        with plugin_faults(label):
            return check_frames(label, select(subject), subject)

    return select_frames


def _guarded_preflight(
    label: str, preflight: Callable[[Sequence[Maker]], Preflight]
) -> Callable[[Sequence[Maker]], Preflight]:
    def checked_preflight(makers: Sequence[Maker]) -> Preflight:
        with plugin_faults(label):
            report = preflight(makers)
            check_cost(label, report.cost)
            return replace(report, warnings=tuple(map(str, report.warnings)))

    return checked_preflight


def _guarded_estimate(label: str, estimate: Callable[[Subject], Cost]) -> Callable[[Subject], Cost]:
    def checked_estimate(subject: Subject) -> Cost:
        with plugin_faults(label):
            return check_cost(label, estimate(subject))

    return checked_estimate
