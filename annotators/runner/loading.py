"""Loads the annotators of a run by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotators.base import Factory, Options
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
    factories: list[Factory] = [registry.get(name) for name in names]
    if budget_usd is not None and options.settings.price is None:
        raise RequestError("a budget needs a price", "set ARES_PRICE=IN,OUT in US dollars per million tokens")
    budget = Budget(budget_usd)
    gpu_fraction = 1 / max(len(names), 1)
    annotators = [
        annotator_on_engine(engine, factory, options, stores, gpu_fraction) for factory in factories
    ]
    return [AnnotatorTask(stores, annotator, budget, strict) for annotator in annotators]
