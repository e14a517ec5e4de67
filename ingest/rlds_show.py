"""Show: the spec that an RLDS dataset is read with, as YAML to be saved, edited and given back with --spec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ares.episode import RateSource
from ingest.rlds_parts import MISFIT, Part
from ingest.rlds_plan import Plan
from ingest.spec import DatasetSpec, SliceSpec


def show_spec(
    dataset: str, plan: Plan, spec: DatasetSpec | None, rate_hz: float, rate_source: RateSource
) -> str:
    """YAML of what is known, completed by what was found, with the rest as comments.

    Args:
        dataset: Its name.
        plan: What its features were taken for.
        spec: What was known, or None.
        rate_hz: Steps per second.
        rate_source: Who says so.
    """
    known = spec or DatasetSpec(
        reference=f"features.json of {dataset}; say here where you know the rest from"
    )
    assumed = rate_source == "assumed"
    shown = known.model_copy(
        update={
            "rate_hz": None if assumed else rate_hz,
            "cameras": {view.name: view.role for view in plan.cameras},
            "state": _slices(known.state, plan, "state"),
            "action": _slices(known.action, plan, "action"),
            "language": tuple(feature.key for feature in plan.language),
        }
    )
    lines = [f"# {dataset}"]
    lines += [f"# rate_hz: {rate_hz:g}  # assumed; say it here, or with --rate"] if assumed else []
    lines += (
        ["# not held against records by ARES: it says what its reference says"]
        if spec and not spec.verified
        else []
    )
    lines += [*_yaml(shown.model_dump(exclude_defaults=True, mode="json"))]
    lines += [f"# {each}" for each in (*plan.warnings, *plan.left_out)]
    lines += [f"# {key} is kept as a signal of its own" for key in plan.unknown]
    return "\n".join(lines) + "\n"


def _slices(known: tuple[SliceSpec, ...], plan: Plan, what: str) -> tuple[SliceSpec, ...]:
    """The known slices with their units; the parts that were found where there are none, or they did not fit."""
    parts: tuple[Part, ...] = getattr(plan, what)
    if known and not any(each.startswith(MISFIT.format(what)) for each in plan.warnings):
        return known
    return tuple(
        SliceSpec(key=part.feature.key, start=part.start, stop=part.stop, names=part.names) for part in parts
    )


def _yaml(document: dict[str, Any]) -> Iterator[str]:
    """A line for each value and for each slice: what belongs together stands together."""
    for name, value in document.items():
        if name in ("state", "action"):
            yield f"{name}:"
            yield from (f"  - {_flow(each)}" for each in value)
        else:
            yield f"{name}: {_flow(value)}"


def _flow(value: Any) -> str:
    import yaml

    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
    return str(text).removesuffix("...\n").strip()
