"""Runs and quotes with the options of a test, which may have other settings than its workspace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ares.jobs import AnnotateEstimate, AnnotateReport, AnnotateRequest, Engine, make_annotate_request
from ares.store import Stores
from ares_annotators import runner
from ares_annotators.base import Options


def annotate(
    stores: Stores,
    names: Sequence[str],
    options: Options,
    *,
    quiet: bool = False,
    engine: Engine | None = None,
    **fields: Any,
) -> tuple[AnnotateReport, ...]:
    """Run annotators; `fields` are those of the request."""
    with _settings_of(stores, options):
        return runner.annotate(stores, make_request(names, options, **fields), quiet=quiet, engine=engine)


def estimate_cost(
    stores: Stores, names: Sequence[str], options: Options, where: str = "", **fields: Any
) -> list[AnnotateEstimate]:
    """The quote of such a run."""
    with _settings_of(stores, options):
        return runner.estimate(stores, make_request(names, options, where=where, **fields))


def make_request(names: Sequence[str], options: Options, **fields: Any) -> AnnotateRequest:
    """The request of a run with these options."""
    compute = options.compute
    needs = {"cpus": compute.cpus, "memory_gb": compute.memory_gb, "gpus": compute.gpus}
    return make_annotate_request(
        tuple(names),
        model=options.model,
        device=options.device,
        options=options.values,
        engine=compute.engine,
        workers=compute.workers,
        per_worker={name: number for name, number in needs.items() if number is not None},
        **fields,
    )


@contextmanager
def _settings_of(stores: Stores, options: Options) -> Iterator[None]:
    before, stores.settings = stores.settings, options.settings
    try:
        yield
    finally:
        stores.settings = before
