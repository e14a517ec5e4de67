"""The annotators of a run, loaded with their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ares.errors import AresError, ModelError, PluginError
from ares.jobs import (
    AnnotateRequest,
    Engine,
)
from ares.registry import annotators as registry
from ares_annotators.base import (
    Budget,
    CellAnnotator,
    Factory,
    Options,
)
from ares_annotators.options import check_single_model_option, options_model, select_options_by_annotator
from ares_annotators.runner.annotator_run import (
    AnnotatorRun,
    BusyTimeClock,
)
from ares_annotators.runner.remote import connect_annotator

if TYPE_CHECKING:
    from ares.store import Stores


class LoadedAnnotators(NamedTuple):
    """The annotators of a run, as far as they can work.

    Attributes:
        tasks: One task per annotator that can work.
        faults: The error of every other annotator, by name.
    """

    tasks: list[AnnotatorRun]
    faults: dict[str, AresError]


def make_factory_options(
    stores: Stores, request: AnnotateRequest, planned_episodes: int, load_models: bool = True
) -> Options:
    """What the factories of the annotators of a run get; without `load_models` those of its quote.

    Raises:
        RequestError: A model is named for several annotators.
    """
    check_single_model_option(request.model, request.names)
    return Options(
        settings=stores.settings,
        model=request.model,
        device=request.device,
        values=dict(request.option_values()),
        load_models=load_models,
        planned_episodes=planned_episodes,
        compute=request.compute,
    )


def load_run_annotators(
    stores: Stores, request: AnnotateRequest, options: Options, budget: Budget, engine: Engine
) -> LoadedAnnotators:
    """Make the annotators of a run or of its quote.

    Args:
        stores: Stores of the workspace.
        request: What is to be run.
        options: As `make_factory_options` makes them.
        budget: Money of the whole run.
        engine: Where the annotators work.

    Raises:
        RequestError: An annotator or an option is unknown.
        ModelError, PluginError: No annotator can work; for a quote, one of them.
    """
    faults: dict[str, AresError] = {}
    factories = import_factories(request, faults)
    annotator_options = list_options_by_annotator(replace(options, budget=budget), factories)
    tasks: list[AnnotatorRun] = []
    for name, factory in factories.items():
        clock = BusyTimeClock()
        try:
            with clock.measured():
                annotator = connect_annotator(
                    engine, registry.label(name), factory, annotator_options[name], stores, len(request.names)
                )
        except (ModelError, PluginError) as error:
            faults[name] = error
        else:
            tasks.append(AnnotatorRun(stores, annotator, budget, clock, name))
    if request.retry_failed:
        for task in tasks:
            task.retry_failed(request.reason)
    if faults and (not options.load_models or not tasks):
        raise next(iter(faults.values()))
    return LoadedAnnotators(tasks, faults)


def import_factories(request: AnnotateRequest, faults: dict[str, AresError]) -> dict[str, Factory]:
    """The factories of annotators; the error of one that cannot be imported goes to `faults`."""
    factories: dict[str, Factory] = {}
    for name in request.names:
        try:
            if name in request.functions:
                factories[name] = partial(CellAnnotator, name, request.functions[name])
            else:
                factories[name] = registry.get(name)
        except PluginError as error:
            faults[name] = error
    return factories


def list_options_by_annotator(options: Options, factories: Mapping[str, Factory]) -> dict[str, Options]:
    """The options of the run for each annotator: `values` holds only those of the annotator, by field."""
    models = {name: options_model(factory) for name, factory in factories.items()}
    values = select_options_by_annotator(options.values, models)
    return {name: replace(options, values=values[name]) for name in factories}
