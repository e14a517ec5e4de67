"""Annotation runs as operations of a workspace: what `Workspace.annotate` and `ares annotate` call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from annotators.base import Options
from annotators.runner import annotate as run_annotators, estimate_cost
from ares.errors import RequestError
from ares.jobs import AnnotateEstimate, AnnotateReport, ComputePlan, open_engine

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


_PER_WORKER = ("cpus", "memory_gb", "gpus")


def annotate(
    stores: Stores,
    names: Sequence[str],
    *,
    where: str,
    model: str,
    device: str,
    options: Mapping[str, Json],
    limit: int | None,
    budget_usd: float | None,
    strict: bool,
    retry_failed: bool,
    reason: str,
    engine: str,
    workers: int | None,
    per_worker: Mapping[str, float],
    quiet: bool,
) -> tuple[AnnotateReport, ...]:
    """Run annotators; see `Workspace.annotate` for the arguments and errors."""
    compute = _compute_plan(engine, workers, per_worker)
    run_options = replace(_run_options(stores, names, model, device, options), compute=compute)
    with open_engine(engine) as executor:
        return run_annotators(
            stores,
            names,
            run_options,
            where=where,
            limit=limit,
            budget_usd=budget_usd,
            strict=strict,
            retried_reason=_retried_reason(retry_failed, reason),
            quiet=quiet,
            engine=executor,
        )


def estimate(
    stores: Stores,
    names: Sequence[str],
    *,
    where: str,
    model: str,
    device: str,
    options: Mapping[str, Json],
    retry_failed: bool,
    reason: str,
) -> list[AnnotateEstimate]:
    """Say what a run would do and cost; see `Workspace.estimate` for the arguments and errors."""
    run_options = _run_options(stores, names, model, device, options)
    return estimate_cost(stores, names, run_options, where, _retried_reason(retry_failed, reason))


def _compute_plan(engine: str, workers: int | None, per_worker: Mapping[str, float]) -> ComputePlan:
    """Where a run works. Raises RequestError where a number cannot be right."""
    unknown = sorted(set(per_worker) - set(_PER_WORKER))
    if unknown:
        raise RequestError(f"no resource {unknown[0]!r}", f"a worker has {', '.join(_PER_WORKER)}")
    return ComputePlan(engine=engine, workers=workers, **per_worker)


def _retried_reason(retry_failed: bool, reason: str) -> str | None:
    """Text in the reason of the failures to retry, or None for a run over everything."""
    if reason and not retry_failed:
        raise RequestError("a reason goes with a retry", f"got --reason {reason!r}; give --retry-failed too")
    return reason if retry_failed else None


def _run_options(
    stores: Stores, names: Sequence[str], model: str, device: str, options: Mapping[str, Json]
) -> Options:
    if not names:
        raise RequestError("no annotator is named", "give for example 'motion', 'embed', 'caption'")
    for name in names:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise RequestError(
                "annotators are named one by one", f"got a {kind}; write annotate('motion', 'embed')"
            )
    if model and len({*names} - {"motion"}) > 1:
        raise RequestError(
            "a model goes with one annotator", f"got {' '.join(names)}; run them one at a time"
        )
    return Options(settings=stores.settings, model=model, device=device, values=dict(_flat_values(options)))


def _flat_values(options: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Values by option: those of {"caption": {"layout": "sheet"}} are addressed as "caption.layout"."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{option}", item) for option, item in value.items())
        else:
            yield name, value
