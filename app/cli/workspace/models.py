"""`ares models`: the models that the settings name, and whether they are on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.cli.common import add_workspace_arguments
from app.cli.output import Block, OutputTable, answer, paragraphs

if TYPE_CHECKING:
    from annotators.models import ModelDescription

_HEADER = ("for", "model", "family", "language model", "weights", "disk", "GPU memory", "licence", "where")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--check", action="store_true", help="ask the model server and the hub as well; needs the network"
    )
    add_workspace_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the models. Returns 1 when one of them is neither here nor to be had."""
    from annotators.models import describe_models, shared_language_model
    from ares.settings import settings_from_environment

    models = describe_models(settings_from_environment(), args.check)
    shared = shared_language_model(models)
    document = {"models": [model.to_json() for model in models], "shared_language_model": shared}
    answer(args, document, lambda: paragraphs(_blocks(models, shared)))
    return 1 if any(model.state == "missing" for model in models) else 0


def _blocks(models: list[ModelDescription], shared: str) -> Iterator[Block]:
    yield OutputTable([_row(model) for model in models], _HEADER)
    if shared:
        yield (
            f"captioner and judge have a language model of one family ({shared}): they share errors; "
            "set ARES_JUDGE_MODEL to a model of another family"
        )


def _row(model: ModelDescription) -> tuple[object, ...]:
    where = model.location if model.state in ("here", "server") else model.state
    where = f"missing: {model.location}" if model.state == "missing" else where
    return (
        model.role,
        model.spec,
        model.family or "unknown",
        model.language_model or ("" if model.family == "clip" else "unknown"),
        _billions(model.parameters),
        _gigabytes(model.disk_bytes),
        _gigabytes(model.memory_bytes),
        model.licence or "unknown",
        f"{where}; {model.check}" if model.check else where,
    )


def _billions(count: int | None) -> str:
    if count is None:
        return "unknown"
    return f"{count / 1e9:.1f} B" if count >= 1e9 else f"{count / 1e6:.0f} M"


def _gigabytes(count: int | None) -> str:
    if count is None:
        return "unknown"
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
