"""`ares models`: the configured models, and whether they are on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares_app.cli.arguments import (
    add_workspace_arguments,
)
from ares_app.cli.output import Block, Columns, answer, make_table, paragraphs

if TYPE_CHECKING:
    from ares_annotators.models import ModelDescription


def add_models_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_models)
    add_workspace_arguments(parser)


def run_models(args: argparse.Namespace) -> int:
    """Print the models. Returns 1 when one of them is neither here nor to be had."""
    from ares.settings import settings_from_environment
    from ares_annotators.models import describe_models, shared_language_model

    models = describe_models(settings_from_environment())
    shared = shared_language_model(models)
    document = {"models": [model.to_json() for model in models], "shared_language_model": shared}
    answer(args, document, lambda: paragraphs(_model_blocks(models, shared)))
    return 1 if any(model.state == "missing" for model in models) else 0


def _model_blocks(models: list[ModelDescription], shared: str) -> Iterator[Block]:
    yield make_table(_MODEL_COLUMNS, models)
    if shared:
        yield (
            f"captioner and judge have a language model of one family ({shared}): they share errors; "
            "set ARES_JUDGE_MODEL to a model of another family"
        )


def _model_location(model: ModelDescription) -> str:
    where = model.location if model.state in ("here", "server") else model.state
    return f"missing: {model.location}" if model.state == "missing" else where


def _amount_text(count: int | None, unit: str) -> str:
    """A number of parameters ("B") or bytes ("GB"), or of a thousandth of that unit where it is less than one."""
    if count is None:
        return "unknown"
    small = "MB" if unit == "GB" else "M"
    return f"{count / 1e9:.1f} {unit}" if count >= 1e9 else f"{count / 1e6:.0f} {small}"


_MODEL_COLUMNS: Columns = {
    "for": lambda model: model.role,
    "model": lambda model: model.spec,
    "family": lambda model: model.family or "unknown",
    "language model": lambda model: model.language_model or ("" if model.family == "clip" else "unknown"),
    "weights": lambda model: _amount_text(model.parameters, "B"),
    "disk": lambda model: _amount_text(model.disk_bytes, "GB"),
    "GPU memory": lambda model: _amount_text(model.memory_bytes, "GB"),
    "licence": lambda model: model.licence or "unknown",
    "where": _model_location,
}
