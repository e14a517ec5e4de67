"""Loads the annotators of a run by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from annotators.base import Factory, Options
from annotators.budget import Budget
from annotators.options import options_model, values_by_annotator
from annotators.runner.busy_clock import BusyClock
from annotators.runner.remote import annotator_on_engine
from annotators.runner.task import AnnotatorTask
from ares.errors import PluginError, RequestError
from ares.jobs import Engine
from ares.registry import annotators as registry

if TYPE_CHECKING:
    from ares.store import Stores


class LoadedTasks(NamedTuple):
    """The annotators of a run, as far as they could be made.

    Attributes:
        tasks: One task per annotator that can work.
        faults: The error of every other annotator, by name.
    """

    tasks: list[AnnotatorTask]
    faults: dict[str, PluginError]


def load_tasks(
    stores: Stores,
    names: Sequence[str],
    options: Options,
    budget_usd: float | None,
    strict: bool,
    engine: Engine,
    retried_reason: str | None = None,
) -> LoadedTasks:
    """Make the annotators of a run; for the arguments see `annotators.runner.run.annotate`.

    Raises:
        RequestError: An annotator or an option is unknown, or there is a budget without a price.
        ModelError: A model cannot be loaded.
        PluginError: No annotator could be made, or with `strict` one of them.
    """
    faults: dict[str, PluginError] = {}
    factories = _import_factories(names, faults)
    own_options = _options_by_annotator(options, factories)
    if budget_usd is not None and options.settings.price is None:
        raise RequestError("a budget needs a price", "set ARES_PRICE=IN,OUT in US dollars per million tokens")
    budget = Budget(budget_usd)
    own_options = {name: replace(own, budget=budget) for name, own in own_options.items()}
    tasks: list[AnnotatorTask] = []
    for name, factory in factories.items():
        clock = BusyClock()
        try:
            with clock.measured():
                annotator = annotator_on_engine(
                    engine, registry.label(name), factory, own_options[name], stores, len(names)
                )
        except PluginError as error:
            faults[name] = error
        else:
            tasks.append(AnnotatorTask(stores, annotator, budget, strict, clock))
    if retried_reason is not None:
        for task in tasks:
            task.retry_failed(retried_reason)
    if faults and (strict or not tasks):
        raise next(iter(faults.values()))
    return LoadedTasks(tasks, faults)


def _import_factories(names: Sequence[str], faults: dict[str, PluginError]) -> dict[str, Factory]:
    """The factories of annotators; the error of one that cannot be imported goes to `faults`."""
    factories: dict[str, Factory] = {}
    for name in names:
        try:
            factories[name] = registry.get(name)
        except PluginError as error:
            faults[name] = error
    return factories


def _options_by_annotator(options: Options, factories: Mapping[str, Factory]) -> dict[str, Options]:
    """The options of the run for each annotator: `values` holds only its own, by field."""
    models = {name: options_model(factory) for name, factory in factories.items()}
    values = values_by_annotator(options.values, models)
    return {name: replace(options, values=values[name]) for name in factories}
