"""Loads the annotators of a run by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from annotators.base import Factory, Options
from annotators.options import options_model, values_by_annotator
from annotators.runner.budget import Budget
from annotators.runner.remote import annotator_on_engine
from annotators.runner.task import AnnotatorTask
from ares.errors import RequestError
from ares.jobs import Engine
from ares.registry import annotators as registry

if TYPE_CHECKING:
    from ares.store import Stores


def load_tasks(
    stores: Stores,
    names: Sequence[str],
    options: Options,
    budget_usd: float | None,
    strict: bool,
    engine: Engine,
) -> list[AnnotatorTask]:
    """One task per annotator name. Raises RequestError or ModelError when an annotator cannot work here."""
    factories: dict[str, Factory] = {name: registry.get(name) for name in names}
    own_options = _options_by_annotator(options, factories)
    if budget_usd is not None and options.settings.price is None:
        raise RequestError("a budget needs a price", "set ARES_PRICE=IN,OUT in US dollars per million tokens")
    budget = Budget(budget_usd)
    gpu_fraction = 1 / max(len(names), 1)
    annotators = [
        annotator_on_engine(engine, factories[name], own_options[name], stores, gpu_fraction)
        for name in names
    ]
    return [AnnotatorTask(stores, annotator, budget, strict) for annotator in annotators]


def _options_by_annotator(options: Options, factories: Mapping[str, Factory]) -> dict[str, Options]:
    """The options of the run for each annotator: `values` holds only its own, by field."""
    models = {name: options_model(factory) for name, factory in factories.items()}
    values = values_by_annotator(options.values, models)
    return {name: replace(options, values=values[name]) for name in factories}
